// The side panel: the node or scope that is selected, and tabs for what else a model has.

import { byId, download, el, svgEl } from "./dom";
import { humanBytes, humanCount, leaf, shapeText, shortened, typeText, type ModelData, type Overlay, type PageData, type Variable, type WeightFacts } from "./data";
import type { GraphView } from "./graph";
import { shown } from "./paint";
import type { Pattern } from "./pattern";
import type { Group } from "./tree";

export interface App {
  page: PageData;
  views: GraphView[];
  go(view: GraphView, sheet: string, node: string): void;
  /** Goes to a node of the graph as it is, out of the raised one. */
  goBase(view: GraphView, sheet: string, node: string): void;
  openSheet(view: GraphView, sheet: string): void;
  pattern: Pattern | null;
  patternChanged(): void;
  stopPattern(): void;
}

type Tab = { key: string; title: string; fill: (into: HTMLElement) => void };

const FEW = 60;
const COLORS = ["--c-product", "--c-variable", "--c-input", "--c-call", "--c-output", "--c-constant"];

export class Panel {
  private readonly tabs = byId("tabs");
  private readonly content = byId("content");
  private current = "model";
  private view: GraphView;

  constructor(private readonly app: App) {
    this.view = app.views[0];
    this.refresh();
  }

  selected(view: GraphView): void {
    this.view = view;
    if (this.app.pattern) this.show("pattern");
    else if (view.selectedNode >= 0 || view.selectedGroup) this.show("selected");
    else this.refresh();
  }

  show(key: string): void {
    this.current = key;
    this.refresh();
  }

  refresh(): void {
    const list = this.list();
    if (!list.some((tab) => tab.key === this.current)) this.current = list[0].key;
    this.tabs.replaceChildren(
      ...list.map((tab, at) => {
        const isOn = tab.key === this.current;
        return el("button", {
          role: "tab", id: `tab-${tab.key}`, "aria-selected": isOn ? "true" : "false", "aria-controls": "content", tabindex: isOn ? 0 : -1,
          onclick: () => this.show(tab.key),
          onkeydown: (event: KeyboardEvent) => {
            const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
            if (!by) return;
            const next = list[(at + by + list.length) % list.length];
            this.show(next.key);
            byId(`tab-${next.key}`).focus();
          },
        }, tab.title);
      }),
    );
    this.content.setAttribute("aria-labelledby", `tab-${this.current}`);
    this.content.replaceChildren();
    list.find((tab) => tab.key === this.current)!.fill(this.content);
  }

  private get model(): ModelData {
    return this.app.page.models[this.view.side];
  }

  private list(): Tab[] {
    const { model, app } = this;
    const tabs: Tab[] = [];
    if (app.pattern) tabs.push({ key: "pattern", title: "pattern", fill: (into) => this.fillPattern(into, app.pattern!) });
    if (this.view.selectedNode >= 0 || this.view.selectedGroup) tabs.push({ key: "selected", title: "selected", fill: (into) => this.fillSelected(into) });
    tabs.push({ key: "model", title: "model", fill: (into) => this.fillModel(into) });
    for (const overlay of app.page.overlays) tabs.push({ key: overlay.name, title: overlay.title, fill: (into) => this.fillOverlay(into, overlay) });
    if (Object.keys(model.signatures).length) tabs.push({ key: "signatures", title: "signatures", fill: (into) => this.fillSignatures(into) });
    if (model.variables.length) tabs.push({ key: "variables", title: "variables", fill: (into) => this.fillVariables(into) });
    if (model.sheets.length > 1) tabs.push({ key: "functions", title: "functions", fill: (into) => this.fillFunctions(into) });
    if (Object.keys(model.collections).length) tabs.push({ key: "collections", title: "collections", fill: (into) => this.fillCollections(into) });
    const files = [...(model.summary.assets ?? []), ...(model.summary.side_files ?? [])];
    if (files.length) tabs.push({ key: "assets", title: "assets", fill: (into) => into.append(rows(files.map((name) => [name, ""]))) });
    return tabs;
  }

  private nodeLink(name: string, sheet = this.view.tree.sheet.data.name, view = this.view): HTMLElement {
    return el("button", { class: "link", onclick: () => this.app.go(view, sheet, name) }, shown(shortened(name, 200)));
  }

  private fillModel(into: HTMLElement): void {
    const { summary, networks } = this.model;
    into.append(el("h2", {}, shown(shortened(summary.path ?? "model in memory", 300))));
    const table: [string, string][] = [["kind", summary.title]];
    if (summary.tensorflow_version) table.push(["written by", `TensorFlow ${summary.tensorflow_version}`]);
    const { variables, graph, constants } = summary;
    if (variables.count) table.push(["variables", `${humanCount(variables.count)} (${humanCount(variables.parameters)} parameters, ${humanBytes(variables.bytes)})`]);
    if (constants?.count) table.push(["constants", `${humanCount(constants.count)} (${humanBytes(constants.bytes)})`]);
    if (graph) {
      table.push(["nodes", graph.functions ? `${humanCount(graph.nodes)}, and ${humanCount(graph.function_nodes)} in ${humanCount(graph.functions)} functions` : humanCount(graph.nodes)]);
      if (graph.custom_ops.length) table.push(["custom ops", graph.custom_ops.join(", ")]);
    }
    into.append(rows(table));
    for (const network of networks) {
      into.append(el("h3", {}, "recognised"), el("p", {}, shown(network.text)));
      const where = network.signatures.join(", ") || network.function;
      if (where) into.append(el("p", { class: "more" }, `in ${shown(where)}`));
    }
    if (graph) {
      into.append(el("h3", {}, "ops"));
      const ops = Object.entries(graph.ops);
      into.append(rows(ops.slice(0, 25).map(([op, count]) => [op, humanCount(count)]), true));
      if (ops.length > 25) into.append(el("p", { class: "more" }, `and ${ops.length - 25} more`));
    }
    into.append(el("p", { class: "more" }, `tfsmith ${this.app.page.version}`));
  }

  private fillSelected(into: HTMLElement): void {
    const { view } = this;
    if (view.selectedNode < 0 && view.selectedGroup) {
      this.fillGroup(into, view.selectedGroup);
      return;
    }
    const { sheet } = view.tree;
    const node = view.selectedNode;
    const op = sheet.op(node);
    into.append(el("h2", {}, shown(shortened(sheet.names[node], 2000))));
    into.append(el("p", {}, el("b", {}, shown(op.name)), op.doc ? ` – ${op.doc}` : ""));
    const kind = sheet.kind(node);
    const chips = [...(kind === "op" ? [] : [kind]), ...op.traits, ...(op.stateful ? ["stateful"] : []), ...(op.unknown ? ["not TensorFlow's own"] : [])];
    into.append(el("p", {}, ...[...new Set(chips)].map((text) => el("span", { class: "chip" }, text))));
    this.addMarks(into, sheet.data.name, sheet.names[node]);
    for (const name of sheet.calls(node)) {
      into.append(el("p", {}, el("button", { onclick: () => this.app.openSheet(view, name) }, `open function ${shown(shortened(name, 80))}`)));
    }
    const table = el("table");
    sheet.types(node).forEach((type, at) => {
      table.append(el("tr", {}, el("th", { scope: "row" }, argName(op.outputs, sheet.types(node).length, at)), el("td", {}, typeText(type))));
    });
    if (sheet.types(node).length) into.append(el("h3", {}, "gives"), table);
    const inputs = el("table");
    let data = 0;
    const total = sheet.starts[node + 1] - sheet.starts[node];
    for (let edge = sheet.starts[node]; edge < sheet.starts[node + 1] && edge < sheet.starts[node] + FEW; edge++) {
      const output = sheet.outputs[edge];
      const source = sheet.sources[edge];
      const label = output < 0 ? "waits for" : op.single && op.single.every(Boolean) ? (op.inputs![data] ?? String(data)) : String(data);
      if (output >= 0) data++;
      inputs.append(el("tr", {}, el("th", { scope: "row" }, label), el("td", {}, this.nodeLink(sheet.names[source]), output > 0 ? `:${output}` : "",
        el("br"), el("small", {}, sheet.isMissing(source) ? "is not in the file" : output < 0 ? "" : typeText(sheet.type(source, output))))));
    }
    if (total) into.append(el("h3", {}, `takes ${total > FEW ? `(the first ${FEW} of ${humanCount(total)})` : ""}`), inputs);
    const uses = sheet.uses(node);
    if (uses.length) {
      const list = el("table");
      for (const { user, edge } of uses.slice(0, FEW)) {
        list.append(el("tr", {}, el("td", {}, this.nodeLink(sheet.names[user]), el("br"), el("small", {}, `${sheet.op(user).name}${sheet.outputs[edge] < 0 ? ", waits for it" : ""}`))));
      }
      into.append(el("h3", {}, `used by ${humanCount(uses.length)}${uses.length > FEW ? ` (the first ${FEW})` : ""}`), list);
    }
    const attrs = Object.entries(sheet.attrs(node));
    if (attrs.length) into.append(el("h3", {}, "attributes"), rows(attrs.map(([key, value]) => [key, attrText(value)])));
    if (sheet.device(node)) into.append(el("h3", {}, "device"), el("p", {}, shown(sheet.device(node))));
    const covered = sheet.covers(node);
    if (covered.length) {
      into.append(el("h3", {}, `stands for ${humanCount(covered.length)} ${covered.length > 1 ? "nodes" : "node"} of the graph`));
      into.append(el("ul", { class: "list" }, ...covered.slice(0, FEW).map((name) => el("li", {}, el("button", { class: "link", onclick: () => this.app.goBase(view, sheet.data.name, name) }, shown(shortened(name, 200)))))));
      if (covered.length > FEW) into.append(el("p", { class: "more" }, `and ${humanCount(covered.length - FEW)} more`));
    } else if (sheet.base) {
      into.append(el("p", {}, el("button", { onclick: () => this.app.goBase(view, sheet.data.name, sheet.names[node]) }, "show it in the graph as it is")));
    }
    const key = sheet.weightKey(node);
    if (key) this.addWeight(into, key);
    into.append(el("p", {}, el("button", { onclick: () => void navigator.clipboard?.writeText(sheet.names[node]) }, "copy the name")));
  }

  private fillGroup(into: HTMLElement, group: Group): void {
    const { view } = this;
    into.append(el("h2", {}, shown(shortened(group.path || group.name, 2000))));
    const what = group.kind === "stack" ? `${group.groups.length} equal blocks, ` : group.kind === "part" ? "part of a flat scope, " : "";
    into.append(el("p", {}, `${what}${humanCount(group.count)} nodes`));
    into.append(el("p", {}, el("button", { onclick: () => void view.toggle(group) }, group.isOpen ? "close" : "open")));
    const counts = new Map<string, number>();
    const walk = (inner: Group): void => {
      for (const node of inner.nodes) counts.set(view.tree.sheet.op(node).name, (counts.get(view.tree.sheet.op(node).name) ?? 0) + 1);
      inner.groups.forEach(walk);
    };
    walk(group);
    const sorted = [...counts].sort((one, other) => other[1] - one[1]);
    const prefix = `${group.path}/`;
    const own = this.model.variables.filter((variable) => (variable.variable ?? variable.name).startsWith(prefix));
    if (own.length) {
      const parameters = own.reduce((sum, variable) => sum + elements(variable), 0);
      into.append(el("p", {}, `${humanCount(own.length)} variables, ${humanCount(parameters)} parameters`));
    }
    into.append(el("h3", {}, "ops"), rows(sorted.slice(0, 30).map(([op, count]) => [op, humanCount(count)]), true));
  }

  private addMarks(into: HTMLElement, sheet: string, node: string): void {
    for (const overlay of this.app.page.overlays) {
      if (overlay.side !== this.view.side && overlay.side >= 0) continue;
      const covered = new Set([node, ...this.view.tree.sheet.covers(this.view.selectedNode)]);
      for (const mark of overlay.marks) {
        if (mark.sheet !== sheet || !covered.has(mark.node)) continue;
        const kind = overlay.kinds[mark.kind];
        into.append(el("p", {}, el("span", { class: "sign", style: `background:${kind.color};display:inline-block` }, kind.sign), ` ${kind.label}${mark.text ? `: ${shown(mark.text)}` : ""}`));
      }
    }
  }

  private addWeight(into: HTMLElement, key: string): void {
    const place = el("div");
    into.append(el("h3", {}, "weight"), place);
    const { weights, server } = this.app.page;
    const known = weights?.[key];
    if (known) {
      place.append(weightElement(known));
      return;
    }
    if (!server) {
      place.append(el("p", { class: "more" }, weights ? "small: its values are among the attributes" : "the page was written without weights (--weights embeds their statistics)"));
      return;
    }
    place.append(el("button", {
      onclick: async () => {
        place.replaceChildren(el("p", {}, "reading …"));
        try {
          const response = await fetch(`${server}weight?key=${encodeURIComponent(key)}`);
          const facts = (await response.json()) as WeightFacts;
          place.replaceChildren(weightElement(facts));
        } catch {
          place.replaceChildren(el("p", {}, "the local server does not answer; start tfsmith view again"));
        }
      },
    }, "read statistics"));
  }

  private fillOverlay(into: HTMLElement, overlay: Overlay): void {
    for (const note of overlay.notes) into.append(el("p", {}, shown(note)));
    into.append(el("p", {}, ...Object.values(overlay.kinds).map((kind) => el("span", { class: "chip" },
      el("span", { class: "sign", style: `background:${kind.color};display:inline-block` }, kind.sign), ` ${kind.label}`))));
    const steps = overlay.marks;
    let at = -1;
    const list = el("ul", { class: "list" });
    const step = (by: number): void => {
      if (!steps.length) return;
      at = (at + by + steps.length) % steps.length;
      const mark = steps[at];
      this.goMark(overlay, mark.sheet, mark.node);
      (list.children[at] as HTMLElement | undefined)?.scrollIntoView({ block: "nearest" });
    };
    if (steps.length > 1) {
      into.append(el("div", { class: "row" }, el("button", { onclick: () => step(-1) }, "previous"), el("button", { onclick: () => step(1) }, "next"), el("span", { class: "more" }, humanCount(steps.length))));
    }
    const most = overlay.measure === "seconds" ? Math.max(...steps.map((mark) => mark.value ?? 0)) : 0;
    for (const mark of steps.slice(0, 2000)) {
      const kind = overlay.kinds[mark.kind];
      const bar = most ? el("span", { class: "bar", style: `width:${(((mark.value ?? 0) / most) * 100).toFixed(1)}%;background:${kind.color}` }) : null;
      list.append(el("li", {}, el("span", { class: "sign", style: `background:${kind.color}`, title: kind.label }, kind.sign),
        el("span", { class: "what" }, bar, mark.node ? el("button", { class: "link", onclick: () => this.goMark(overlay, mark.sheet, mark.node) }, shown(shortened(mark.node, 160))) : null,
          mark.text ? el("span", { class: "name-text" }, mark.node ? el("br") : null, el("small", {}, shown(mark.text))) : null)));
    }
    into.append(list);
    if (steps.length > 2000) into.append(el("p", { class: "more" }, `and ${humanCount(steps.length - 2000)} more`));
  }

  private goMark(overlay: Overlay, sheet: string, node: string): void {
    const sides = overlay.side >= 0 ? [overlay.side] : [0, 1];
    const views = this.app.views.filter((view) => sides.includes(view.side) && has(this.app.page.models[view.side], sheet, node));
    const tab = this.current;
    if (views.length) this.app.go(views[views.length - 1], sheet, node);
    this.show(tab);
  }

  private fillSignatures(into: HTMLElement): void {
    for (const [key, signature] of Object.entries(this.model.signatures)) {
      into.append(el("h2", {}, shown(key)));
      const table = el("table");
      for (const [role, entries] of [["input", signature.inputs], ["output", signature.outputs]] as const) {
        for (const [name, info] of Object.entries(entries)) {
          const node = info.name.replace(/:\d+$/, "");
          table.append(el("tr", {}, el("th", { scope: "row" }, role), el("td", {}, shown(name), el("br"), el("small", {}, `${info.dtype} ${shapeText(info.shape)}`)),
            el("td", {}, has(this.model, "", node) ? this.nodeLink(node, "") : shown(info.name))));
        }
      }
      into.append(table);
      if (signature.method_name) into.append(el("p", { class: "more" }, signature.method_name));
    }
  }

  private fillVariables(into: HTMLElement): void {
    const { variables } = this.model;
    const sorted = variables.slice().sort((one, other) => other.bytes - one.bytes);
    into.append(el("p", {}, `${humanCount(variables.length)} variables, ${humanCount(variables.reduce((sum, one) => sum + elements(one), 0))} parameters`));
    into.append(treemap(sorted, (variable) => this.goVariable(variable)));
    const table = el("table");
    for (const variable of sorted.slice(0, 400)) {
      const detail = el("div");
      table.append(el("tr", {}, el("td", {}, el("button", { class: "link", onclick: () => this.goVariable(variable, detail) }, shown(shortened(variable.variable ?? variable.name, 200))),
        el("br"), el("small", {}, `${variable.dtype} ${shapeText(variable.shape)}${variable.optimizer_slot ? ", an optimizer's" : ""}`), detail), el("td", { class: "number" }, humanBytes(variable.bytes))));
    }
    into.append(table);
    if (sorted.length > 400) into.append(el("p", { class: "more" }, `and ${humanCount(sorted.length - 400)} more`));
  }

  private goVariable(variable: Variable, detail?: HTMLElement): void {
    const keys = this.model.sheets[0]?.keys ?? {};
    const number = Object.keys(keys).find((node) => keys[node] === variable.name);
    const node = number === undefined ? (variable.variable ?? variable.name) : this.model.sheets[0].names[Number(number)];
    if (has(this.model, "", node)) this.app.go(this.view, "", node);
    else if (detail) {
      detail.replaceChildren();
      this.addWeight(detail, `variable:${variable.name}`);
    }
  }

  private fillFunctions(into: HTMLElement): void {
    const table = el("table");
    for (const sheet of this.model.sheets.slice(1)) {
      table.append(el("tr", {}, el("td", {}, el("button", { class: "link", onclick: () => this.app.openSheet(this.view, sheet.name) }, shown(shortened(sheet.name, 120)))),
        el("td", { class: "number" }, `${humanCount(sheet.names.length - sheet.args - sheet.rets)} nodes`)));
    }
    into.append(table);
  }

  private fillCollections(into: HTMLElement): void {
    for (const [key, collection] of Object.entries(this.model.collections)) {
      into.append(el("h3", {}, `${shown(key)} (${collection.kind}, ${humanCount(collection.count)})`));
      const list = el("ul", { class: "list" });
      for (const value of collection.values) {
        const name = (value as { name?: string } | null)?.name ?? "";
        const node = name.replace(/^\^/, "").replace(/:\d+$/, "");
        list.append(el("li", {}, node && has(this.model, "", node) ? this.nodeLink(node, "") : el("span", { class: "name-text" }, shown(shortened(typeof value === "object" ? JSON.stringify(value) : String(value), 400)))));
      }
      into.append(list);
      if (collection.count > collection.values.length) into.append(el("p", { class: "more" }, `and ${humanCount(collection.count - collection.values.length)} more`));
    }
  }

  private fillPattern(into: HTMLElement, pattern: Pattern): void {
    const { app } = this;
    const changed = (): void => {
      app.patternChanged();
      this.refresh();
    };
    into.append(el("h2", {}, "Pick a pattern"), el("p", {}, "Click the output of the pattern, then the nodes at which it stops. A second click takes it back."));
    const node = this.view.selectedNode;
    if (node >= 0) {
      into.append(el("p", {}, el("b", {}, shown(leaf(pattern.sheet.names[node])))), el("div", { class: "row" },
        el("button", { onclick: () => (pattern.addSeed(node), changed()) }, "also an output"),
        el("button", { onclick: () => (pattern.addBarrier(node), changed()) }, "a barrier")));
    }
    const names = (title: string, nodes: Iterable<number>): void => {
      const all = pattern.names(nodes);
      if (!all.length) return;
      into.append(el("h3", {}, `${title}: ${humanCount(all.length)}`), el("ul", { class: "list" }, ...all.slice(0, 30).map((name) => el("li", {}, this.nodeLink(name)))));
      if (all.length > 30) into.append(el("p", { class: "more" }, `and ${humanCount(all.length - 30)} more`));
    };
    names("outputs", pattern.seeds);
    names("barriers", pattern.barriers);
    if (!pattern.seeds.size) return;
    into.append(el("p", {}, `The pattern has ${humanCount(pattern.nodes.size)} nodes.`));
    const box = el("input", { type: "checkbox", id: "with-constants" });
    box.checked = pattern.withConstants;
    box.addEventListener("change", () => {
      pattern.withConstants = box.checked;
      pattern.grow();
      changed();
    });
    into.append(el("p", {}, box, el("label", { for: "with-constants" }, " constants belong to it")));
    if (pattern.open.length) {
      names("open ends: nodes without inputs that are no barriers", pattern.open);
      into.append(el("button", { id: "close-ends", onclick: () => (pattern.closeEnds(), changed()) }, "make them barriers"));
      return;
    }
    const text = pattern.command(app.page.command);
    const area = el("textarea", { id: "command", readonly: true, "aria-label": "The command" });
    area.value = text;
    const said = el("span", { role: "status" });
    into.append(el("h3", {}, "command"), area, el("div", { class: "row" },
      el("button", {
        id: "copy-command", class: "main",
        onclick: () => {
          area.select();
          const copied = navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject(new Error());
          copied.catch(() => document.execCommand("copy")).then(() => said.replaceChildren("copied"));
        },
      }, "copy"),
      el("button", { id: "save-command", onclick: () => download("extract.sh", `#!/bin/sh\n${text}\n`) }, "download"),
      app.page.server ? el("button", { id: "draft", onclick: () => void this.draft(pattern, said) }, "download the recipe draft") : null, said));
    if (!app.page.server) into.append(el("p", { class: "more" }, "A recipe draft is made by the local server: tfsmith view MODEL without -o."));
  }

  private async draft(pattern: Pattern, said: HTMLElement): Promise<void> {
    const query = new URLSearchParams({
      function: pattern.sheet.data.name, seeds: JSON.stringify(pattern.names(pattern.seeds)), barriers: JSON.stringify(pattern.names(pattern.barriers)),
      constants: pattern.withConstants ? "1" : "",
    });
    const response = await fetch(`${this.app.page.server}draft?${query}`);
    if (response.ok) download("recipe.toml", await response.text());
    said.replaceChildren(response.ok ? "saved" : await response.text());
  }
}

function has(model: ModelData, sheet: string, node: string): boolean {
  const found = model.sheets.find((one) => one.name === sheet);
  return !!found && (found.names.includes(node) || found.missing.includes(node));
}

function argName(names: string[] | undefined, count: number, at: number): string {
  return names && names.length === count ? names[at] : String(at);
}

function rows(table: [string, string][] | string[][], number = false): HTMLElement {
  return el("table", {}, ...table.map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, shown(key)), value === "" && !number ? el("td") : el("td", { class: number ? "number" : "" }, shown(value)))));
}

function attrText(value: unknown): string {
  if (value && typeof value === "object" && !Array.isArray(value)) {
    const tensor = value as { dtype?: string; shape?: number[] | null; values?: unknown[]; function?: string };
    if (tensor.function !== undefined) return `function ${tensor.function}`;
    if (tensor.dtype !== undefined) return `${tensor.dtype} ${shapeText(tensor.shape ?? null)}${tensor.values ? ` = ${JSON.stringify(tensor.values)}` : ""}`;
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

function elements(variable: Variable): number {
  return variable.shape ? variable.shape.reduce((product, size) => product * Math.max(size, 0), 1) : 0;
}

function weightElement(facts: WeightFacts): HTMLElement {
  const place = el("div");
  if (facts.error) return el("p", {}, shown(facts.error));
  const number = (value: unknown): string => (typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value));
  const table: [string, string][] = [["values", `${humanCount(facts.count)} ${facts.dtype}`]];
  if (facts.first) table.push(["first", facts.first.map(String).join(", ")]);
  if (facts.min !== undefined) {
    table.push(["range", `${number(facts.min)} … ${number(facts.max)}`], ["mean", number(facts.mean)], ["deviation", number(facts.deviation)], ["zeros", humanCount(facts.zeros ?? 0)]);
  }
  if (facts.nan) table.push(["NaN", humanCount(facts.nan)]);
  if (facts.infinite) table.push(["infinite", humanCount(facts.infinite)]);
  place.append(rows(table));
  if (facts.histogram) {
    const most = Math.max(...facts.histogram, 1);
    const wide = 320 / facts.histogram.length;
    const chart = svgEl("svg", { class: "bars", viewBox: "0 0 320 110", role: "img", "aria-label": `Histogram from ${number(facts.min)} to ${number(facts.max)}` });
    facts.histogram.forEach((count, at) => {
      const height = count ? Math.max(1, (count / most) * 92) : 0;
      chart.append(svgEl("rect", { x: at * wide + 0.5, y: 94 - height, width: wide - 1, height, fill: "var(--accent)" }, svgEl("title", {}, humanCount(count))));
    });
    chart.append(svgEl("text", { x: 0, y: 107, "font-size": 11, fill: "var(--muted)" }, number(facts.min)), svgEl("text", { x: 320, y: 107, "font-size": 11, "text-anchor": "end", fill: "var(--muted)" }, number(facts.max)));
    place.append(chart);
  }
  return place;
}

/** Variables as areas by their size, those of one scope side by side. */
function treemap(sorted: Variable[], go: (variable: Variable) => void): SVGElement {
  const width = 340;
  const height = 260;
  const map = svgEl("svg", { class: "treemap", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Variables by size" });
  interface Cell { name: string; bytes: number; variable: Variable | null; inner: Map<string, Cell>; top: number }
  const root: Cell = { name: "", bytes: 0, variable: null, inner: new Map(), top: 0 };
  for (const variable of sorted.slice(0, 1500)) {
    let cell = root;
    const parts = (variable.variable ?? variable.name).split("/").slice(0, 12);
    root.bytes += variable.bytes;
    parts.forEach((part, at) => {
      const key = at === parts.length - 1 ? `${part}\n${variable.name}` : part;
      if (!cell.inner.has(key)) cell.inner.set(key, { name: part, bytes: 0, variable: null, inner: new Map(), top: 0 });
      cell = cell.inner.get(key)!;
      cell.bytes += variable.bytes;
    });
    cell.variable = variable;
  }
  let color = 0;
  const put = (cell: Cell, x: number, y: number, w: number, h: number, depth: number, tint: string): void => {
    if (w < 1 || h < 1 || !cell.bytes) return;
    if (cell.variable) {
      const rect = svgEl("rect", { x, y, width: w, height: h, fill: `var(${tint})` }, svgEl("title", {}, `${shown(cell.variable.name)}\n${cell.variable.dtype} ${shapeText(cell.variable.shape)}, ${humanBytes(cell.variable.bytes)}`));
      rect.addEventListener("click", () => go(cell.variable!));
      map.append(rect);
      if (w > 44 && h > 14) map.append(svgEl("text", { x: x + 4, y: y + 11 }, shortened(shown(cell.name), Math.floor(w / 6))));
      return;
    }
    const cells = [...cell.inner.values()].sort((one, other) => other.bytes - one.bytes);
    split(cells, x, y, w, h, (one, left, top, wide, high) => put(one, left, top, wide, high, depth + 1, cells.length > 1 && depth < 3 ? COLORS[color++ % COLORS.length] : tint));
  };
  const split = (cells: Cell[], x: number, y: number, w: number, h: number, place: (cell: Cell, x: number, y: number, w: number, h: number) => void): void => {
    if (cells.length === 1) return place(cells[0], x, y, w, h);
    if (!cells.length) return;
    const total = cells.reduce((sum, cell) => sum + cell.bytes, 0) || 1;
    let cut = 0;
    let first = 0;
    while (cut < cells.length - 1 && (first === 0 || first + cells[cut].bytes / 2 < total / 2)) first += cells[cut++].bytes;
    const part = first / total;
    if (w > h) {
      split(cells.slice(0, cut), x, y, w * part, h, place);
      split(cells.slice(cut), x + w * part, y, w * (1 - part), h, place);
    } else {
      split(cells.slice(0, cut), x, y, w, h * part, place);
      split(cells.slice(cut), x, y + h * part, w, h * (1 - part), place);
    }
  };
  put(root, 0, 0, width, height, 0, COLORS[0]);
  return map;
}
