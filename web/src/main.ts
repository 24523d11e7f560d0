// The page: header, pictures, panel; what the keys do; where the browser's history leads.

import { Sheet, measured, readPage, shapeText, shortened, type ModelData, type PageData } from "./data";
import { byId, download, el } from "./dom";
import { GraphView, type Hooks } from "./graph";
import { shown, type Badge, type Palette } from "./paint";
import { Panel, type App } from "./panel";
import { Pattern } from "./pattern";
import { search } from "./search";
import type { Group, Tree } from "./tree";

const KEYS: [string, string][] = [
  ["/", "search"], ["arrows", "go from node to node"], ["Enter", "open or close a scope; follow a node"], ["Shift + arrows", "move the picture"],
  ["+ −", "zoom"], ["f", "show everything"], ["o", "open or close the selected scope"], ["u", "go to the scope around"],
  ["p", "pick a pattern"], ["r", "the graph as it is, or raised"], ["d", "dark or light"], ["Alt + ←, →", "back, forward"], ["Esc", "close, deselect"], ["?", "this list"],
];

function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    page: read("--page"), surface: read("--surface"), deep: read("--deep"), frame: read("--frame"), text: read("--text"), muted: read("--muted"),
    accent: read("--accent"), edge: read("--edge"), input: read("--c-input"), output: read("--c-output"), variable: read("--c-variable"),
    constant: read("--c-constant"), call: read("--c-call"), missing: read("--c-missing"), op: read("--c-op"), group: read("--c-group"), product: read("--c-product"),
  };
}

const SEED: Badge = { color: "#7a3db8", sign: "◆", text: "" };
const BARRIER: Badge = { color: "#a33b12", sign: "‖", text: "" };
const INSIDE: Badge = { color: "#1558b8", sign: "✓", text: "" };

interface Marks {
  nodes: Map<number, Badge>;
  scopes: Map<Group, Badge>;
  groups: number; // how many scopes the tree had: opening one may make others
}

/** What the marks of an overlay come to, at a node or in a scope. */
interface Sum {
  count: number;
  kind: number;
  value: number;
  isMeasured: boolean;
}

function isProduct(op: string): boolean {
  return /MatMul|Conv|Einsum|Contract/.test(op) && !/Backprop/.test(op);
}

class Page implements App {
  readonly views: GraphView[] = [];
  readonly panel: Panel;
  pattern: Pattern | null = null;
  private colors = palette();
  private readonly sheets: Map<string, Sheet>[];
  private readonly raisedSheets: Map<string, Sheet>[];
  private readonly markMaps = new Map<Tree, Marks>();
  private isSyncing = false;
  private isRaised = false;

  constructor(readonly page: PageData) {
    this.sheets = page.models.map((model) => new Map((model.sheets.length ? model.sheets : [EMPTY]).map((data) => [data.name, new Sheet(model, data)])));
    this.raisedSheets = page.models.map((model, side) => new Map(Object.values(model.raised).map((data) => [data.name, new Sheet(model, data, this.sheets[side].get(data.name)!)])));
    const hooks: Hooks = {
      select: (view, node, group) => this.select(view, node, group),
      follow: (view, node) => this.go(view, view.tree.sheet.data.name, view.tree.sheet.names[node]),
      toggled: (view, group) => this.toggled(view, group),
      moved: (view) => this.moved(view),
      palette: () => this.colors,
      decor: (view) => this.decor(view),
    };
    page.models.forEach((model, side) => {
      const canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": `Graph of ${model.summary.path ?? "the model"}; arrows go from node to node, Enter opens` });
      const name = page.models.length > 1 ? el("div", { class: "name" }, `${side ? "B" : "A"}: ${shown(model.summary.path ?? "")}`) : null;
      byId("views").append(el("div", { class: "view" }, canvas, name));
      this.views.push(new GraphView(canvas, side, hooks));
    });
    this.views.forEach((view, side) => void view.show(this.sheets[side].values().next().value!));
    this.panel = new Panel(this);
    const overlay = page.overlays[0];
    if (overlay) this.panel.show(overlay.name);
    this.header();
    this.banner();
    this.listen();
    const ready = Promise.all(this.views.map((view) => view.isReady));
    void ready.then(() => {
      this.readHash();
      requestAnimationFrame(() => {
        document.documentElement.dataset.ready = String(Math.round(performance.now()));
      });
    });
  }

  private header(): void {
    const { summary, networks } = this.page.models[0];
    const path = summary.path ?? "model";
    const short = path.split(/[\\/]/).filter(Boolean).pop() ?? path;
    const title = networks.length ? `${short} – ${networks[0].text}` : short;
    byId("title").textContent = shown(shortened(title, 120));
    byId("title").title = shown(path);
    document.title = `${shown(shortened(short, 60))} – tfsmith view`;
    const select = byId<HTMLSelectElement>("sheets");
    const names = new Set(this.page.models.flatMap((model) => model.sheets.map((sheet) => sheet.name)));
    select.append(...[...names].map((name) => el("option", { value: name }, name ? shown(shortened(name, 80)) : "graph")));
    select.addEventListener("change", () => {
      for (const view of this.views) this.openSheet(view, select.value);
    });
    byId("pick").hidden = !this.page.command;
    byId("raised").hidden = !this.page.models.some((model) => Object.keys(model.raised).length);
  }

  private banner(): void {
    const lines: string[] = [];
    for (const model of this.page.models) {
      const missing = model.summary.graph?.missing ?? [];
      if (missing.length) {
        const more = missing.length > 1 ? `, and ${missing.length - 1} more inputs are missing` : "";
        lines.push(`The graph is cut off: ${shortened(missing[0].node, 100)} takes ${shortened(missing[0].takes, 100)}, which is not there${more}.`);
      }
      if (!model.summary.graph) lines.push(model.sheets.length ? "A Keras file holds layers but no graph: these are its layers." : "A checkpoint holds variables but no graph: see the tab “variables”.");
    }
    const banner = byId("banner");
    banner.hidden = !lines.length;
    banner.textContent = shown(lines.join(" "));
    if (!this.page.models[0].sheets.length) this.panel.show("variables");
  }

  // what the pictures ask for

  private decor(view: GraphView): ReturnType<Hooks["decor"]> {
    const { sheet } = view.tree;
    const marks = this.marksOf(view);
    const { pattern } = this;
    const isHere = pattern?.sheet === sheet;
    const mark = (node: number): Badge | null => {
      if (isHere && pattern) {
        if (pattern.seeds.has(node)) return SEED;
        if (pattern.barriers.has(node)) return BARRIER;
        if (pattern.nodes.has(node)) return INSIDE;
      }
      return marks.nodes.get(node) ?? null;
    };
    if (!isHere || !pattern) return { mark, marks: (group) => marks.scopes.get(group) ?? null, isProduct };
    const counts = new Map<Group, number>();
    const picked = new Set([...pattern.seeds, ...pattern.barriers, ...pattern.nodes]);
    for (const node of picked) for (let group: Group | null = view.tree.home[node]; group; group = group.parent) counts.set(group, (counts.get(group) ?? 0) + 1);
    const inScope = (group: Group): Badge | null => (counts.has(group) ? { ...INSIDE, text: counts.get(group)!.toLocaleString("en-US") } : null);
    return { mark, marks: inScope, isProduct };
  }

  /** The marks of a picture's nodes, and what they come to in each scope: the first overlay that has one counts. */
  private marksOf(view: GraphView): Marks {
    const { tree } = view;
    const known = this.markMaps.get(tree);
    if (known && known.groups === tree.all.length) return known;
    const made: Marks = { nodes: new Map(), scopes: new Map(), groups: tree.all.length };
    for (const overlay of this.page.overlays) {
      if (overlay.side >= 0 && overlay.side !== view.side) continue;
      const order = Object.keys(overlay.kinds);
      const inside = new Map<Group, Sum>();
      const own = new Map<number, Sum>();
      const isSum = overlay.measure === "seconds";
      let total = 0;
      for (const one of overlay.marks) {
        if (isSum) total += one.value ?? 0;
        const node = one.sheet === tree.sheet.data.name && one.node ? tree.sheet.standIn(one.node) : -1;
        if (node < 0) continue;
        const add = <T>(sums: Map<T, Sum>, key: T): void => {
          const found = sums.get(key) ?? { count: 0, kind: order.length - 1, value: 0, isMeasured: false };
          found.count++;
          found.kind = Math.min(found.kind, order.indexOf(one.kind));
          found.value = isSum ? found.value + (one.value ?? 0) : Math.max(found.value, one.value ?? 0);
          found.isMeasured ||= one.value !== undefined;
          sums.set(key, found);
        };
        add(own, node);
        for (let group: Group | null = tree.home[node]; group; group = group.parent) add(inside, group);
      }
      const badge = (found: Sum): Badge => {
        const share = total ? found.value / total : 0;
        const kind = overlay.kinds[order[isSum ? (share >= 0.1 ? 0 : share >= 0.01 ? 1 : 2) : found.kind]];
        return { ...kind, text: found.isMeasured ? measured(found.value, overlay.measure) + (isSum ? ` ${(share * 100).toFixed(0)}%` : "") : "" };
      };
      for (const [node, found] of own) if (!made.nodes.has(node)) made.nodes.set(node, badge(found));
      for (const [group, found] of inside) {
        if (made.scopes.has(group)) continue;
        const text = !overlay.measure && found.count > 1 ? found.count.toLocaleString("en-US") : "";
        made.scopes.set(group, text ? { ...badge(found), text } : badge(found));
      }
    }
    this.markMaps.set(tree, made);
    return made;
  }

  private select(view: GraphView, node: number, group: Group | null, isNew = true): void {
    for (const other of this.views) {
      if (other === view) continue;
      other.selectedGroup = null;
      other.selectedNode = node >= 0 ? other.tree.sheet.find(view.tree.sheet.names[node]) : -1;
      other.redraw();
    }
    view.selectedNode = node;
    view.selectedGroup = group;
    if (this.pattern && node >= 0 && isNew && view.side === 0) {
      if (this.pattern.sheet !== view.tree.sheet) this.pattern = new Pattern(view.tree.sheet);
      this.pattern.click(node);
    }
    view.redraw();
    this.panel.selected(view);
    if (isNew && node >= 0) this.pushHash(view, view.tree.sheet.names[node]);
  }

  private toggled(view: GraphView, group: Group): void {
    if (this.isSyncing) return;
    this.isSyncing = true;
    for (const other of this.views) {
      const same = other === view ? undefined : other.tree.find(group.path);
      if (!same || same.isOpen === group.isOpen || !other.tree.chain(same).slice(0, -1).every((outer) => outer.isOpen)) continue;
      void other.toggle(same).then(() => this.moved(view));
    }
    this.isSyncing = false;
    if (view.selectedGroup === group) this.panel.refresh();
  }

  private moved(view: GraphView): void {
    if (this.isSyncing) return;
    this.isSyncing = true;
    for (const other of this.views) {
      if (other === view) continue;
      other.scale = view.scale;
      other.x = view.x;
      other.y = view.y;
      other.redraw();
    }
    this.isSyncing = false;
  }

  // where to go

  go(view: GraphView, sheet: string, node: string, isNew = true): void {
    const raised = this.isRaised ? this.raisedSheets[view.side].get(sheet) : undefined;
    const found = raised && raised.find(node) >= 0 ? raised : this.sheets[view.side].get(sheet);
    const number = found ? found.find(node) : -1;
    if (!found || number < 0) return;
    if (this.isRaised && found !== raised) this.setRaised(false);
    const shownFirst = view.tree.sheet === found ? Promise.resolve() : this.openSheet(view, sheet);
    void shownFirst.then(async () => {
      await view.reveal(number);
      this.select(view, number, null, false);
      if (isNew) this.pushHash(view, node);
      for (const other of this.views) {
        const same = other === view ? -1 : other.tree.sheet.find(node);
        if (same < 0) continue;
        this.isSyncing = true;
        await other.reveal(same);
        this.isSyncing = false;
      }
    });
  }

  goBase(view: GraphView, sheet: string, node: string): void {
    this.setRaised(false);
    this.go(view, sheet, node);
  }

  openSheet(view: GraphView, name: string): Promise<void> {
    const found = (this.isRaised ? this.raisedSheets[view.side].get(name) : undefined) ?? this.sheets[view.side].get(name);
    if (!found) return Promise.resolve();
    byId<HTMLSelectElement>("sheets").value = name;
    const done = view.show(found);
    this.panel.refresh();
    return done;
  }

  private pushHash(view: GraphView, node: string): void {
    const { name } = view.tree.sheet.data;
    const side = view.side ? `&side=${view.side}` : "";
    const hash = `#node=${encodeURIComponent(node)}${name ? `&sheet=${encodeURIComponent(name)}` : ""}${side}`;
    if (hash === location.hash) return;
    try {
      history.pushState(null, "", hash);
    } catch {
      location.hash = hash; // a page inside of another may have no history of its own
    }
  }

  private readHash(): void {
    const wanted = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    const node = wanted.get("node");
    const view = this.views[Number(wanted.get("side") ?? 0)] ?? this.views[0];
    if (node !== null) this.go(view, wanted.get("sheet") ?? "", node, false);
    else if (view.selectedNode >= 0) this.select(view, -1, null, false);
  }

  // patterns

  startPattern(): void {
    if (this.isRaised) this.raise();
    this.pattern = new Pattern(this.views[0].tree.sheet);
    const node = this.views[0].selectedNode;
    if (node >= 0) this.pattern.click(node);
    byId("pick").setAttribute("aria-pressed", "true");
    this.panel.show("pattern");
    this.patternChanged();
  }

  stopPattern(): void {
    this.pattern = null;
    byId("pick").setAttribute("aria-pressed", "false");
    this.panel.refresh();
    this.patternChanged();
  }

  patternChanged(): void {
    for (const view of this.views) view.redraw();
  }

  // recognised or as it is

  private setRaised(isRaised: boolean): void {
    this.isRaised = isRaised;
    byId("raised").setAttribute("aria-pressed", String(isRaised));
  }

  /** Shows the raised graph, or the graph as it is; what is selected stays selected, or what stands for it. */
  private raise(): void {
    this.setRaised(!this.isRaised);
    if (this.isRaised && this.pattern) this.stopPattern();
    for (const view of this.views) {
      const { sheet } = view.tree;
      const { name } = sheet.data;
      const other = (this.isRaised ? this.raisedSheets : this.sheets)[view.side];
      const next = other.get(name) ?? (this.isRaised && !sheet.base ? [...other.values()].sort((one, another) => another.count - one.count)[0] : undefined);
      if (!next || next === sheet) continue;
      const node = view.selectedNode >= 0 && next.data.name === name ? next.standIn(sheet.names[view.selectedNode]) : -1;
      byId<HTMLSelectElement>("sheets").value = next.data.name;
      void view.show(next).then(async () => {
        if (node < 0) return;
        await view.reveal(node);
        this.select(view, node, null, false);
      });
    }
    this.panel.refresh();
  }

  private listen(): void {
    const [view] = this.views;
    const on = (id: string, work: () => void): void => byId(id).addEventListener("click", work);
    on("fit", () => view.fit());
    on("in", () => view.zoom(1.3));
    on("out", () => view.zoom(1 / 1.3));
    on("svg", () => download("graph.svg", view.svg()));
    on("png", () => void view.png().then((blob) => blob && download("graph.png", blob)));
    on("pick", () => (this.pattern ? this.stopPattern() : this.startPattern()));
    on("raised", () => this.raise());
    on("theme", () => this.turn());
    on("help", () => this.help());
    window.addEventListener("popstate", () => this.readHash());
    window.addEventListener("hashchange", () => this.readHash());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paintAgain());
    search(this.page.models, this.sheets, (side, sheet, node) => this.go(this.views[side], sheet, node));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const [view] = this.views;
    if (event.key === "Escape" && !byId<HTMLDialogElement>("keys").open) {
      if (this.pattern) this.stopPattern();
      else this.select(view, -1, null, false);
      return;
    }
    if (event.altKey || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(target.tagName)) return;
    const works: Record<string, () => void> = {
      "/": () => byId("search").focus(), f: () => view.fit(), "+": () => view.zoom(1.3), "=": () => view.zoom(1.3), "-": () => view.zoom(1 / 1.3),
      p: () => byId("pick").hidden || (this.pattern ? this.stopPattern() : this.startPattern()), d: () => this.turn(), "?": () => this.help(),
      r: () => byId("raised").hidden || this.raise(),
      o: () => view.selectedGroup && void view.toggle(view.selectedGroup),
      u: () => this.up(view),
    };
    const work = works[event.key];
    if (!work) return;
    event.preventDefault();
    work();
  }

  /** Selects the scope around what is selected. */
  private up(view: GraphView): void {
    const group = view.selectedNode >= 0 ? view.tree.home[view.selectedNode] : view.selectedGroup?.parent;
    if (!group?.parent) return;
    this.select(view, -1, group);
    view.center(group, false);
  }

  private turn(): void {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    this.paintAgain();
  }

  private paintAgain(): void {
    this.colors = palette();
    for (const view of this.views) view.redraw();
  }

  private help(): void {
    const dialog = byId<HTMLDialogElement>("keys");
    dialog.replaceChildren(
      el("h2", {}, "Keys"),
      el("table", {}, ...KEYS.map(([key, what]) => el("tr", {}, el("th", { scope: "row" }, key), el("td", {}, what)))),
      el("p", {}, "Click a scope to open it, its title to close it. Rounded ends are inputs, arrows outputs, drums variables, hexagons constants; double sides call a function; dotted edges are control edges; wider edges carry larger tensors."),
      el("form", { method: "dialog" }, el("button", {}, "close")),
    );
    dialog.showModal();
  }
}

const EMPTY: ModelData["sheets"][0] = { name: "", names: [], ops: [], inputs: [], types: [], attrs: [], devices: [], missing: [], args: 0, rets: 0 };

async function start(): Promise<void> {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const data = await readPage(byId("data").textContent ?? "");
  byId("data").remove();
  const page = new Page(data);
  Object.assign(window, { tfsmithView: { page, shapeText } });
}

void start();
