// One picture of a sheet: a canvas with pan, zoom, opening and closing of scopes, and the layout worker behind it.

import { Sheet, leaf } from "./data";
import { layOut, PADDING, TITLE, type Placed, type Task } from "./layout";
import { CanvasPen, FONT, Painter, SvgPen, constantText, itemTip, rowName, shown, subtitle, textWidth, type Decor, type Palette, type View } from "./paint";
import { Tree, type Group, type Item } from "./tree";

declare const WORKER_SOURCE: string;

/** The worker that lays out; where a browser forbids one, the page itself does it. */
class Layouter {
  private worker: Worker | null = null;
  private waiting = new Map<number, { task: Task; done: (placed: Placed[]) => void }>();
  private count = 0;

  constructor() {
    try {
      this.worker = new Worker(URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" })));
      this.worker.onmessage = (event: MessageEvent<{ id: number; placed: Placed[] }>) => {
        this.waiting.get(event.data.id)?.done(event.data.placed);
        this.waiting.delete(event.data.id);
      };
      this.worker.onerror = () => {
        this.worker = null;
        for (const { task, done } of this.waiting.values()) done(layOut(task));
        this.waiting.clear();
      };
    } catch {
      this.worker = null;
    }
  }

  run(task: Task): Promise<Placed[]> {
    const { worker } = this;
    if (!worker) return Promise.resolve(layOut(task));
    return new Promise((done) => {
      const id = this.count++;
      this.waiting.set(id, { task, done });
      worker.postMessage({ id, task });
    });
  }
}

const layouter = new Layouter();
const pad = 24;

export interface Hit {
  item: Item | null;
  group: Group | null; // an opened scope whose title or ground was hit
  node: number;
  isTitle: boolean;
  place: [number, number, number, number];
}

export interface Hooks {
  select(view: GraphView, node: number, group: Group | null): void;
  follow(view: GraphView, node: number): void;
  toggled(view: GraphView, group: Group): void;
  moved(view: GraphView): void;
  decor(view: GraphView): Omit<Decor, "palette" | "selectedNode" | "selectedGroup" | "focus">;
  palette(): Palette;
}

export class GraphView {
  tree!: Tree;
  x = 0;
  y = 0;
  scale = 1;
  selectedNode = -1;
  selectedGroup: Group | null = null;
  focus: Item | null = null;
  isReady: Promise<void> = Promise.resolve();
  frames = 0;
  readonly trees = new Map<Sheet, Tree>();
  private readonly context: CanvasRenderingContext2D;
  private isWaiting = false;
  private version = 0;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private start: { x: number; y: number; moved: boolean } | null = null;

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly side: number,
    private readonly hooks: Hooks,
  ) {
    this.context = canvas.getContext("2d")!;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  /** Shows a sheet; its scopes stay as they were when it was last shown. */
  show(sheet: Sheet): Promise<void> {
    let tree = this.trees.get(sheet);
    if (!tree) {
      tree = new Tree(sheet, (item) => this.size(sheet, item), sheet.scopes);
      this.trees.set(sheet, tree);
    }
    this.tree = tree;
    this.selectedNode = -1;
    this.selectedGroup = null;
    this.focus = null;
    return this.relayout().then(() => this.fit());
  }

  private size(sheet: Sheet, item: Item): { width: number; height: number } {
    const wide = (text: string, size: number, isBold = false): number => textWidth(shown(text.slice(0, 60)), size, isBold);
    const clamp = (width: number): number => Math.min(230, Math.max(64, Math.ceil(width)));
    if (item.group) {
      const { group } = item;
      if (group.isVariable) return { width: clamp(Math.max(wide(group.name, 12, true), 90) + 26), height: 42 };
      const least = group.isAside ? 170 : 90;
      return { width: clamp(Math.max(wide(`▸ ${group.name}`, 13, true), least) + 30), height: 48 };
    }
    if (item.port) {
      const text = item.port.nodes.length === 1 ? leaf(item.port.label) : item.port.label;
      return { width: Math.min(180, wide(`↓ ${text}`, 10.5) + 30), height: 20 };
    }
    const kind = sheet.kind(item.node);
    const extra = kind === "constant" || kind === "call" ? 34 : 22;
    let width = Math.max(wide(sheet.op(item.node).name, 12, true), Math.min(150, wide(subtitle(sheet, item.node), 10))) + extra;
    for (const row of item.rows) {
      const text = `${rowName(sheet, row)} ${constantText(sheet.attrs(row)["value"]) || "1234×1234"}`;
      width = Math.max(width, Math.min(190, wide(text, 10)) + 36);
    }
    const height = 36 + (kind === "variable" ? 8 : kind === "output" ? 10 : 0) + 15 * item.rows.length;
    return { width: clamp(width), height };
  }

  /** Lays out what changed, and keeps a point of the picture where it is. */
  async relayout(anchor?: Group): Promise<void> {
    const version = ++this.version;
    const { tree } = this;
    const before = anchor ? this.placeOf(anchor) : null;
    const work = layouter.run(tree.task()).then((placed) => {
      if (version !== this.version) return;
      tree.accept(placed);
      const after = anchor ? this.placeOf(anchor) : null;
      if (before && after) {
        this.x += (before[0] - after[0]) * this.scale;
        this.y += (before[1] - after[1]) * this.scale;
      }
      this.redraw();
    });
    this.isReady = work;
    return work;
  }

  private resize(): void {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.draw();
  }

  redraw(): void {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  private decor(): Decor {
    return {
      ...this.hooks.decor(this),
      palette: this.hooks.palette(),
      selectedNode: this.selectedNode,
      selectedGroup: this.selectedGroup,
      focus: this.focus,
    };
  }

  private draw(): void {
    if (!this.tree) return;
    const { context, canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const decor = this.decor();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = decor.palette.page;
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.translate(this.x, this.y);
    context.scale(this.scale, this.scale);
    const view: View = {
      left: -this.x / this.scale, top: -this.y / this.scale, scale: this.scale,
      right: (canvas.clientWidth - this.x) / this.scale, bottom: (canvas.clientHeight - this.y) / this.scale,
    };
    new Painter(new CanvasPen(context), this.tree, view, decor).draw();
    this.frames++;
  }

  svg(): string {
    const placed = this.tree.root.placed ?? { width: 0, height: 0 };
    const pen = new SvgPen();
    const view = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9, scale: 1 };
    const decor = this.decor();
    new Painter(pen, this.tree, view, decor).draw();
    const box = `${-pad} ${-pad} ${(placed.width + 2 * pad).toFixed(0)} ${(placed.height + 2 * pad).toFixed(0)}`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" font-family='${FONT}'>\n<rect x="${-pad}" y="${-pad}" width="100%" height="100%" fill="${decor.palette.page}"/>\n${pen.parts.join("\n")}\n</svg>\n`;
  }

  /** The whole picture as pixels, as large as a canvas may be. */
  png(): Promise<Blob | null> {
    const placed = this.tree.root.placed ?? { width: 1, height: 1 };
    const width = placed.width + 2 * pad;
    const height = placed.height + 2 * pad;
    const scale = Math.min(2, 8000 / Math.max(width, height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    const context = canvas.getContext("2d")!;
    const decor = this.decor();
    context.fillStyle = decor.palette.page;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.scale(scale, scale);
    context.translate(pad, pad);
    new Painter(new CanvasPen(context), this.tree, { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9, scale }, decor).draw();
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  fit(): void {
    const placed = this.tree.root.placed;
    if (!placed || !this.canvas.clientWidth) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const whole = Math.min((width - 2 * pad) / (placed.width || 1), (height - 2 * pad) / (placed.height || 1));
    const least = width < 700 ? 0.55 : Math.min(0.45, (width - 2 * pad) / (placed.width || 1));
    this.scale = Math.min(1.25, Math.max(whole, least, 0.02));
    this.x = (width - placed.width * this.scale) / 2;
    this.y = whole < this.scale ? pad : (height - placed.height * this.scale) / 2;
    this.redraw();
    this.hooks.moved(this);
  }

  zoom(factor: number, atX = this.canvas.clientWidth / 2, atY = this.canvas.clientHeight / 2): void {
    const scale = Math.min(4, Math.max(0.01, this.scale * factor));
    const by = scale / this.scale;
    this.x = atX - (atX - this.x) * by;
    this.y = atY - (atY - this.y) * by;
    this.scale = scale;
    this.redraw();
    this.hooks.moved(this);
  }

  pan(x: number, y: number): void {
    this.x += x;
    this.y += y;
    this.redraw();
    this.hooks.moved(this);
  }

  /** Where an item, a scope or a node is, in the picture's own units. */
  placeOf(wanted: Group | Item | number): [number, number, number, number] | null {
    let found: [number, number, number, number] | null = null;
    this.each((item, place) => {
      const isIt = typeof wanted === "number" ? item.node === wanted || item.rows.includes(wanted) : item === wanted || item.group === wanted;
      if (isIt) found = place;
    });
    return found;
  }

  /** All items that can be seen, each with its place. */
  each(visit: (item: Item, place: [number, number, number, number], group: Group) => void): void {
    const walk = (group: Group, x: number, y: number): void => {
      const { placed } = group;
      if (!placed) return;
      group.items.forEach((item, at) => {
        const place = placed.places[at];
        if (!place) return;
        const here: [number, number, number, number] = [x + place[0], y + place[1], place[2], place[3]];
        visit(item, here, group);
        if (!item.group?.isOpen) return;
        const extra = (place[2] - 2 * PADDING - (item.group.placed?.width ?? 0)) / 2;
        walk(item.group, here[0] + PADDING + Math.max(0, extra), here[1] + TITLE);
      });
    };
    walk(this.tree.root, 0, 0);
  }

  hit(clientX: number, clientY: number): Hit | null {
    const box = this.canvas.getBoundingClientRect();
    const x = (clientX - box.left - this.x) / this.scale;
    const y = (clientY - box.top - this.y) / this.scale;
    let found: Hit | null = null;
    this.each((item, place) => {
      if (x < place[0] || x > place[0] + place[2] || y < place[1] || y > place[1] + place[3]) return;
      if (item.group?.isOpen) {
        found = { item, group: item.group, node: -1, isTitle: y < place[1] + TITLE, place };
        return;
      }
      const row = Math.floor((y - place[1] - 32) / 15);
      const node = item.rows.length && row >= 0 && row < item.rows.length ? item.rows[row] : item.node;
      found = { item, group: null, node, isTitle: false, place };
    });
    return found;
  }

  center(wanted: Group | Item | number, zoomIn = true): void {
    const place = this.placeOf(wanted);
    if (!place) return;
    if (zoomIn && this.scale < 0.75) this.scale = 0.9;
    this.x = this.canvas.clientWidth / 2 - (place[0] + place[2] / 2) * this.scale;
    this.y = this.canvas.clientHeight / 2 - (place[1] + Math.min(place[3], this.canvas.clientHeight / this.scale) / 2) * this.scale;
    this.redraw();
    this.hooks.moved(this);
  }

  isInSight(wanted: Group | Item | number): boolean {
    const place = this.placeOf(wanted);
    if (!place) return false;
    const left = place[0] * this.scale + this.x;
    const top = place[1] * this.scale + this.y;
    return left >= 0 && top >= 0 && left + place[2] * this.scale <= this.canvas.clientWidth && top + place[3] * this.scale <= this.canvas.clientHeight;
  }

  async reveal(node: number): Promise<void> {
    this.tree.reveal(node);
    this.selectedNode = node;
    this.selectedGroup = null;
    await this.relayout();
    this.center(node);
  }

  async toggle(group: Group): Promise<void> {
    if (group.isOpen) this.tree.close(group);
    else this.tree.open(group);
    await this.relayout(group);
    this.hooks.toggled(this, group);
    if (!group.isOpen) return;
    const place = this.placeOf(group);
    if (!place) return;
    const bottom = (place[1] + place[3]) * this.scale + this.y;
    const right = (place[0] + place[2]) * this.scale + this.x;
    if (bottom < this.canvas.clientHeight && right < this.canvas.clientWidth && place[0] * this.scale + this.x > 0) return;
    const room = Math.min((this.canvas.clientWidth - 2 * pad) / place[2], (this.canvas.clientHeight - 2 * pad) / place[3]);
    this.scale = Math.min(this.scale, Math.max(room, 0.4));
    this.x = this.canvas.clientWidth / 2 - (place[0] + place[2] / 2) * this.scale;
    this.y = pad - place[1] * this.scale;
    this.redraw();
    this.hooks.moved(this);
  }

  /** Moves the focus to the nearest item in a direction. */
  step(dx: number, dy: number): void {
    const from = this.focus ? this.placeOf(this.focus) : null;
    let best: Item | null = null;
    let least = Infinity;
    this.each((item, place) => {
      if (item === this.focus) return;
      const atX = place[0] + place[2] / 2;
      const atY = place[1] + (item.group?.isOpen ? TITLE / 2 : place[3] / 2);
      if (!from) {
        if (atY + Math.abs(atX) / 1000 < least) {
          least = atY + Math.abs(atX) / 1000;
          best = item;
        }
        return;
      }
      const x = atX - (from[0] + from[2] / 2);
      const y = atY - (from[1] + (this.focus?.group?.isOpen ? TITLE / 2 : from[3] / 2));
      const along = x * dx + y * dy;
      if (along <= 1) return;
      const cost = along + 2.5 * Math.abs(x * dy + y * dx);
      if (cost < least) {
        least = cost;
        best = item;
      }
    });
    if (!best) return;
    this.focus = best;
    this.chooseFocus();
    if (!this.isInSight(best)) this.center(best, false);
    this.redraw();
  }

  private chooseFocus(): void {
    const item = this.focus;
    if (!item) return;
    if (item.node >= 0) this.hooks.select(this, item.node, null);
    else if (item.group) this.hooks.select(this, -1, item.group);
  }

  activateFocus(): void {
    const item = this.focus;
    if (!item) return;
    if (item.group) void this.toggle(item.group);
    else this.hooks.follow(this, item.node >= 0 ? item.node : item.port!.nodes[0]);
  }

  private listen(): void {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      if (event.shiftKey && !event.ctrlKey) this.pan(-event.deltaY - event.deltaX, 0);
      else this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      if (this.pointers.size === 1) this.start = { x: event.clientX, y: event.clientY, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = this.pointers.get(event.pointerId);
      if (!last) {
        const hit = this.hit(event.clientX, event.clientY);
        canvas.style.cursor = hit && (!hit.group || hit.isTitle) ? "pointer" : "grab";
        canvas.title = hit?.item && !hit.group ? shown(itemTip(this.tree, hit.item)).slice(0, 300) : "";
        return;
      }
      const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
      if (others.length) {
        const other = others[0][1];
        const before = Math.hypot(last.x - other.x, last.y - other.y);
        const after = Math.hypot(event.clientX - other.x, event.clientY - other.y);
        const box = canvas.getBoundingClientRect();
        if (before > 0) this.zoom(after / before, (event.clientX + other.x) / 2 - box.left, (event.clientY + other.y) / 2 - box.top);
        if (this.start) this.start.moved = true;
      } else if (this.start && (this.start.moved || Math.hypot(event.clientX - this.start.x, event.clientY - this.start.y) > 4)) {
        this.start.moved = true;
        canvas.style.cursor = "grabbing";
        this.pan(event.clientX - last.x, event.clientY - last.y);
      }
      this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    });
    const end = (event: PointerEvent): void => {
      this.pointers.delete(event.pointerId);
      if (event.type === "pointerup" && this.start && !this.start.moved && !this.pointers.size) this.click(event);
      if (!this.pointers.size) this.start = null;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("keydown", (event) => {
      const by = 60;
      const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const move = moves[event.key];
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (move && event.shiftKey) this.pan(-move[0] * by, -move[1] * by);
      else if (move) this.step(...move);
      else if (event.key === "Enter" || event.key === " ") this.activateFocus();
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("focus", () => {
      if (!this.focus && canvas.matches(":focus-visible")) this.enter();
    });
  }

  /** Where the focus is when it comes to the picture: at what is selected, else at the first item. */
  private enter(): void {
    const { selectedNode: node, selectedGroup: group } = this;
    this.each((item) => {
      const isIt = group ? item.group === group : node >= 0 && (item.node === node || item.rows.includes(node));
      if (isIt) this.focus = item;
    });
    if (this.focus) this.redraw();
    else this.step(0, 1);
  }

  private click(event: PointerEvent): void {
    const hit = this.hit(event.clientX, event.clientY);
    if (!hit?.item) {
      this.focus = null;
      this.hooks.select(this, -1, null);
      return;
    }
    this.focus = hit.item;
    if (hit.group) {
      if (hit.isTitle) void this.toggle(hit.group);
      this.hooks.select(this, -1, hit.group);
    } else if (hit.item.group) {
      this.hooks.select(this, -1, hit.item.group);
      void this.toggle(hit.item.group);
    } else if (hit.item.port) {
      if (hit.item.port.nodes.length) this.hooks.follow(this, hit.item.port.nodes[0]);
    } else this.hooks.select(this, hit.node, null);
  }
}
