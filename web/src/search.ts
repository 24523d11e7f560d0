// Search by name, op, attribute and shape, through all sheets.

import { CONTROL, Sheet, shapeText, shortened, type ModelData } from "./data";
import { byId, el } from "./dom";
import { shown } from "./paint";

interface Found {
  side: number;
  sheet: string;
  node: string;
  op: string;
}

const MOST = 200;

/** Whether a node fits all words of a query: `op:X`, `attr:NAME`, `attr:NAME=VALUE`, `shape:2×3`, or a part of its name or op. */
export function matcher(query: string): (sheet: Sheet, node: number) => boolean {
  const tests = query.trim().split(/\s+/).filter(Boolean).map((word) => test(word.toLowerCase()));
  return (sheet, node) => tests.every((one) => one(sheet, node));
}

function test(word: string): (sheet: Sheet, node: number) => boolean {
  const [, field, rest] = /^(op|attr|shape|name|dtype):(.*)$/.exec(word) ?? ["", "", word];
  if (field === "op") return (sheet, node) => sheet.op(node).name.toLowerCase() === rest || (rest.endsWith("*") && sheet.op(node).name.toLowerCase().startsWith(rest.slice(0, -1)));
  if (field === "name") return (sheet, node) => sheet.names[node].toLowerCase().includes(rest);
  if (field === "dtype") return (sheet, node) => sheet.types(node).some((type) => type[0] === rest);
  if (field === "shape" || (!field && /^(\d+|\?)([x×,](\d+|\?))+$/.test(rest))) {
    const wanted = rest.replace(/^\[|\]$/g, "").replace(/[x,]/g, "×");
    return (sheet, node) => sheet.types(node).some((type) => shapeText(type[1]) === wanted) || takes(sheet, node, wanted);
  }
  if (field === "attr") {
    const [name, value] = rest.split("=", 2);
    return (sheet, node) => Object.entries(sheet.attrs(node)).some(([key, found]) =>
      key.toLowerCase() === name && (value === undefined || (typeof found === "string" ? found : JSON.stringify(found)).toLowerCase() === value));
  }
  return (sheet, node) => sheet.names[node].toLowerCase().includes(rest) || sheet.op(node).name.toLowerCase() === rest;
}

function takes(sheet: Sheet, node: number, wanted: string): boolean {
  for (let edge = sheet.starts[node]; edge < sheet.starts[node + 1]; edge++) {
    if (sheet.outputs[edge] === CONTROL) continue;
    const type = sheet.type(sheet.sources[edge], sheet.outputs[edge]);
    if (type && shapeText(type[1]) === wanted) return true;
  }
  return false;
}

export function search(models: ModelData[], sheets: Map<string, Sheet>[], go: (side: number, sheet: string, node: string) => void): void {
  const input = byId<HTMLInputElement>("search");
  const results = byId("results");
  let found: Found[] = [];
  let total = 0;
  let at = -1;
  const choose = (one: Found): void => {
    results.hidden = true;
    go(one.side, one.sheet, one.node);
  };
  const run = (): void => {
    found = [];
    total = 0;
    at = -1;
    const query = input.value.trim();
    if (query) {
      const fits = matcher(query);
      models.forEach((_, side) => {
        for (const sheet of sheets[side].values()) {
          for (let node = 0; node < sheet.count; node++) {
            if (!fits(sheet, node)) continue;
            total++;
            if (found.length < MOST) found.push({ side, sheet: sheet.data.name, node: sheet.names[node], op: sheet.op(node).name });
          }
        }
      });
    }
    draw(query);
  };
  const draw = (query: string): void => {
    results.hidden = !query;
    input.setAttribute("aria-expanded", String(!results.hidden));
    results.replaceChildren(
      ...found.map((one, number) => {
        const where = `${one.op}${one.sheet ? ` in ${shortened(one.sheet, 40)}` : ""}${one.side ? " (B)" : ""}`;
        return el("div", { role: "option", id: `result-${number}`, "aria-selected": number === at ? "true" : "false", onpointerdown: (event: Event) => event.preventDefault(), onclick: () => choose(one) },
          el("span", { class: "name-text" }, shown(shortened(one.node, 160))), el("br"), el("small", {}, shown(where)));
      }),
      el("div", { class: "more", role: "option", "aria-selected": "false", "aria-disabled": "true" }, total > found.length ? `${total.toLocaleString("en-US")} found, the first ${found.length} are here` : total ? `${total.toLocaleString("en-US")} found` : "nothing found"),
    );
  };
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-expanded", "false");
  input.addEventListener("input", run);
  input.addEventListener("focus", () => input.value && run());
  input.addEventListener("blur", () => setTimeout(() => (results.hidden = true), 150));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      results.hidden = true;
      input.blur();
      event.stopPropagation();
    } else if (event.key === "Enter" && found.length) choose(found[Math.max(at, 0)]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      at = Math.min(found.length - 1, Math.max(0, at + (event.key === "ArrowDown" ? 1 : -1)));
      draw(input.value.trim());
      input.setAttribute("aria-activedescendant", `result-${at}`);
      byId(`result-${at}`)?.scrollIntoView({ block: "nearest" });
    }
  });
}
