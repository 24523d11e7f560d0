// Draws a laid-out tree on a canvas or as SVG: one set of shapes, two pens.

import { Sheet, leaf, shortened, typeText, shapeText, type Kind } from "./data";
import { PADDING, TITLE } from "./layout";
import type { Edge, Group, Item, Tree } from "./tree";

export interface Palette {
  page: string; surface: string; frame: string; text: string; muted: string; accent: string; edge: string; deep: string;
  input: string; output: string; variable: string; constant: string; call: string; missing: string; op: string; group: string; product: string;
}

export interface Pen {
  path(commands: (number | string)[], fill: string | null, stroke: string | null, width: number, dash?: number[]): void;
  text(text: string, x: number, y: number, size: number, color: string, bold: boolean, middle: boolean): void;
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class CanvasPen implements Pen {
  constructor(private readonly context: CanvasRenderingContext2D) {}

  path(commands: (number | string)[], fill: string | null, stroke: string | null, width: number, dash: number[] = []): void {
    const { context } = this;
    context.beginPath();
    for (let at = 0; at < commands.length; ) {
      const word = commands[at++];
      if (word === "M") context.moveTo(commands[at++] as number, commands[at++] as number);
      else if (word === "L") context.lineTo(commands[at++] as number, commands[at++] as number);
      else if (word === "C") {
        const [a, b, c, d, e, f] = commands.slice(at, at + 6) as number[];
        context.bezierCurveTo(a, b, c, d, e, f);
        at += 6;
      } else if (word === "Q") {
        const [a, b, c, d] = commands.slice(at, at + 4) as number[];
        context.quadraticCurveTo(a, b, c, d);
        at += 4;
      } else context.closePath();
    }
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.stroke();
    }
  }

  text(text: string, x: number, y: number, size: number, color: string, bold: boolean, middle: boolean): void {
    const { context } = this;
    context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    context.fillStyle = color;
    context.textAlign = middle ? "center" : "left";
    context.textBaseline = "middle";
    context.direction = "ltr";
    context.fillText(text, x, y);
  }
}

export class SvgPen implements Pen {
  readonly parts: string[] = [];

  path(commands: (number | string)[], fill: string | null, stroke: string | null, width: number, dash: number[] = []): void {
    const d = commands.map((word) => (typeof word === "number" ? word.toFixed(1) : word)).join(" ");
    const line = stroke ? ` stroke="${stroke}" stroke-width="${width}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""}` : "";
    this.parts.push(`<path d="${d}" fill="${fill ?? "none"}"${line}/>`);
  }

  text(text: string, x: number, y: number, size: number, color: string, bold: boolean, middle: boolean): void {
    const weight = bold ? ' font-weight="600"' : "";
    const anchor = middle ? ' text-anchor="middle"' : "";
    this.parts.push(
      `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${size}"${weight}${anchor} fill="${color}" dominant-baseline="central">${escaped(text)}</text>`,
    );
  }
}

export function escaped(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")
    .replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** What a name looks like in a picture: marks that turn the direction of text around would move its neighbours. */
export function shown(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/** What stands at the corner of a node or scope: the sign says in words what the color says. */
export interface Badge {
  color: string;
  sign: string;
  text: string;
}

export interface Decor {
  palette: Palette;
  selectedNode: number;
  selectedGroup: Group | null;
  focus: Item | null;
  /** The mark of a node, if an overlay has one. */
  mark(node: number): Badge | null;
  /** What the marks inside of a scope come to. */
  marks(group: Group): Badge | null;
  isProduct(op: string): boolean;
}

let measurer: CanvasRenderingContext2D | null = null;
const fits = new Map<string, string>();

export function textWidth(text: string, size: number, isBold = false): number {
  measurer ??= document.createElement("canvas").getContext("2d")!;
  measurer.font = `${isBold ? "600 " : ""}${size}px ${FONT}`;
  return measurer.measureText(text).width;
}

/** As much of a text as fits into a width; its middle goes first. */
function fitted(text: string, width: number, size: number, isBold = false): string {
  const key = `${width.toFixed()} ${size} ${isBold} ${text}`;
  const known = fits.get(key);
  if (known !== undefined) return known;
  let words = shortened(shown(text), 80);
  if (textWidth(words, size, isBold) > width) {
    let [least, most] = [1, words.length - 1];
    while (least < most) {
      const middle = Math.ceil((least + most) / 2);
      if (textWidth(shortened(words, middle), size, isBold) <= width) least = middle;
      else most = middle - 1;
    }
    words = shortened(words, least);
  }
  if (fits.size > 20_000) fits.clear();
  fits.set(key, words);
  return words;
}

export interface View {
  left: number; top: number; right: number; bottom: number; scale: number;
}

const R = 6;

function rounded(x: number, y: number, w: number, h: number, r = R): (number | string)[] {
  return [
    "M", x + r, y, "L", x + w - r, y, "Q", x + w, y, x + w, y + r, "L", x + w, y + h - r, "Q", x + w, y + h, x + w - r, y + h,
    "L", x + r, y + h, "Q", x, y + h, x, y + h - r, "L", x, y + r, "Q", x, y, x + r, y, "Z",
  ];
}

/** The outline of a node: what it is can be told without colours. */
function outline(kind: Kind, x: number, y: number, w: number, h: number): (number | string)[] {
  if (kind === "input") return rounded(x, y, w, h, Math.min(h / 2, 17));
  if (kind === "output") return ["M", x, y, "L", x + w, y, "L", x + w, y + h - 10, "L", x + w / 2, y + h, "L", x, y + h - 10, "Z"];
  if (kind === "constant") {
    const cut = Math.min(10, h / 2.5);
    return ["M", x + cut, y, "L", x + w - cut, y, "L", x + w, y + h / 2, "L", x + w - cut, y + h, "L", x + cut, y + h, "L", x, y + h / 2, "Z"];
  }
  if (kind === "variable") {
    return ["M", x, y + 6, "C", x, y - 2, x + w, y - 2, x + w, y + 6, "L", x + w, y + h - 6, "C", x + w, y + h + 2, x, y + h + 2, x, y + h - 6, "Z"];
  }
  return rounded(x, y, w, h);
}

export class Painter {
  constructor(
    private readonly pen: Pen,
    private readonly tree: Tree,
    private readonly view: View,
    private readonly decor: Decor,
  ) {}

  draw(): void {
    this.inside(this.tree.root, 0, 0, 0);
  }

  private inside(group: Group, x: number, y: number, depth: number): void {
    const { placed } = group;
    if (!placed) return;
    const { view, decor } = this;
    const items = group.items;
    group.edges.forEach((edge, at) => {
      if (placed.lines[at]) this.edge(group, edge, placed.lines[at], x, y);
    });
    items.forEach((item, at) => {
      const place = placed.places[at];
      if (!place) return;
      const left = x + place[0];
      const top = y + place[1];
      if (left > view.right || left + place[2] < view.left || top > view.bottom || top + place[3] < view.top) return;
      if (item.group?.isOpen) {
        const chosen = decor.selectedGroup === item.group;
        const path = rounded(left, top, place[2], place[3], 9);
        this.pen.path(path, depth % 2 ? decor.palette.page : decor.palette.deep, chosen ? decor.palette.accent : decor.palette.frame, chosen ? 3 : 1.2);
        if (view.scale * TITLE > 7) {
          const words = item.group.kind === "stack" ? `${item.group.name}  ×${item.group.groups.length}` : item.group.name;
          this.pen.text("▾ " + fitted(words, place[2] - 40, 13, true), left + 12, top + TITLE / 2, 13, decor.palette.text, true, false);
        }
        const extra = (place[2] - 2 * PADDING - (item.group.placed?.width ?? 0)) / 2;
        this.inside(item.group, left + PADDING + Math.max(0, extra), top + TITLE, depth + 1);
      } else this.item(item, left, top, place[2], place[3]);
    });
  }

  private edge(group: Group, edge: Edge, line: number[], x: number, y: number): void {
    const { view, decor } = this;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (let at = 0; at < line.length; at += 2) {
      left = Math.min(left, line[at]);
      right = Math.max(right, line[at]);
      top = Math.min(top, line[at + 1]);
      bottom = Math.max(bottom, line[at + 1]);
    }
    if (x + left > view.right || x + right < view.left || y + top > view.bottom || y + bottom < view.top) return;
    if (view.scale < 0.03 && edge.isControl) return;
    const from = group.items[edge.from];
    const to = group.items[edge.to];
    const isNear = this.isSelected(from) || this.isSelected(to);
    const color = isNear ? decor.palette.accent : decor.palette.edge;
    const width = edge.isControl ? 1 : Math.min(5, Math.max(1, Math.log2(Math.max(edge.bytes, 2)) / 5)) + (isNear ? 0.8 : 0);
    const path: (number | string)[] = ["M", x + line[0], y + line[1]];
    const last = line.length - 2;
    if (line.length === 4) {
      const bend = Math.min(60, Math.abs(line[3] - line[1]) / 2);
      path.push("C", x + line[0], y + line[1] + bend, x + line[2], y + line[3] - bend, x + line[2], y + line[3]);
    } else {
      for (let at = 2; at < last; at += 2) {
        const endX = at + 2 < last ? (line[at] + line[at + 2]) / 2 : line[last];
        const endY = at + 2 < last ? (line[at + 1] + line[at + 3]) / 2 : line[last + 1];
        path.push("Q", x + line[at], y + line[at + 1], x + endX, y + endY);
      }
    }
    this.pen.path(path, null, color, width, edge.isControl ? [2, 4] : []);
    if (view.scale < 0.35) return;
    const tipX = x + line[last], tipY = y + line[last + 1];
    const size = 4 + width;
    const angle = line.length === 4 ? Math.PI / 2 : Math.atan2(line[last + 1] - line[last - 1], line[last] - line[last - 2]);
    const side = (turn: number): [number, number] => [tipX - size * 1.6 * Math.cos(angle + turn), tipY - size * 1.6 * Math.sin(angle + turn)];
    this.pen.path(["M", tipX, tipY, "L", ...side(0.42), "L", ...side(-0.42), "Z"], color, null, 0);
    if (view.scale < 0.6 || edge.isControl) return;
    const label = edge.count > 1 && from.group ? `${edge.count}×` : edge.type ? shapeText(edge.type[1]) : "";
    if (!label || label === "?") return;
    const at = line.length === 4 ? -1 : 2 * Math.floor(line.length / 4);
    const middleX = at < 0 ? (line[0] + line[2]) / 2 : line[at];
    const middleY = at < 0 ? (line[1] + line[3]) / 2 : line[at + 1];
    const half = label.length * 2.9 + 3;
    this.pen.path(rounded(x + middleX - half, y + middleY - 7, 2 * half, 14, 4), decor.palette.page, null, 0);
    this.pen.text(label, x + middleX, y + middleY, 10, isNear ? decor.palette.accent : decor.palette.muted, false, true);
  }

  private isSelected(item: Item): boolean {
    const { decor } = this;
    if (item.node >= 0) return item.node === decor.selectedNode || item.rows.includes(decor.selectedNode);
    return !!item.group && item.group === decor.selectedGroup;
  }

  private item(item: Item, x: number, y: number, w: number, h: number): void {
    if (item.group) this.closed(item, item.group, x, y, w, h);
    else if (item.port) this.port(item, x, y, w, h);
    else this.node(item, x, y, w, h);
    if (this.decor.focus === item) this.pen.path(rounded(x - 5, y - 5, w + 10, h + 10, 9), null, this.decor.palette.accent, 2, [5, 3]);
  }

  private closed(item: Item, group: Group, x: number, y: number, w: number, h: number): void {
    const { palette } = this.decor;
    const chosen = this.isSelected(item);
    const stroke = chosen ? palette.accent : palette.frame;
    const width = chosen ? 3 : 1.4;
    if (group.kind === "stack") {
      for (const shift of [8, 4]) this.pen.path(rounded(x + shift, y - shift, w, h), palette.group, palette.frame, 1.2);
    }
    const kind = group.isVariable ? "variable" : "op";
    const fill = group.isVariable ? palette.variable : group.isAside ? palette.page : palette.group;
    this.pen.path(outline(kind, x, y, w, h), fill, stroke, width, group.isAside ? [5, 4] : []);
    if (this.view.scale * 12 > 4.5) {
      if (group.isVariable) {
        const type = this.tree.sheet.attrs(group.variable)["shape"];
        this.pen.text(fitted(group.name, w - 14, 12, true), x + w / 2, y + h / 2 - 6, 12, palette.text, true, true);
        this.pen.text(`variable ${Array.isArray(type) ? shapeText(type as number[]) : ""}`, x + w / 2, y + h / 2 + 9, 10, palette.muted, false, true);
      } else {
        const times = group.kind === "stack" ? `×${group.groups.length}  ` : "";
        this.pen.text("▸ " + fitted(group.name, w - 28, 13, true), x + w / 2, y + h / 2 - 8, 13, palette.text, true, true);
        const words = `${times}${group.count.toLocaleString("en-US")} nodes${group.isAside ? ", saves and restores" : ""}`;
        this.pen.text(words, x + w / 2, y + h / 2 + 10, 11, palette.muted, false, true);
      }
    }
    const marks = this.decor.marks(group);
    if (marks) this.badge(x + w, y, marks);
  }

  private port(item: Item, x: number, y: number, w: number, h: number): void {
    const { palette } = this.decor;
    const port = item.port!;
    this.pen.path(rounded(x, y, w, h, h / 2), palette.page, palette.edge, 1, [3, 3]);
    if (this.view.scale * 11 < 4.5) return;
    const text = fitted(port.nodes.length === 1 ? leaf(port.label) : port.label, w - 24, 10.5);
    this.pen.text(port.isInput ? `↓ ${text}` : `${text} ↓`, x + w / 2, y + h / 2, 10.5, palette.muted, false, true);
  }

  private node(item: Item, x: number, y: number, w: number, h: number): void {
    const { sheet } = this.tree;
    const { palette } = this.decor;
    const kind = sheet.kind(item.node);
    const op = sheet.op(item.node);
    const chosen = item.node === this.decor.selectedNode;
    const mark = this.decor.mark(item.node);
    const fill = kind === "op" && this.decor.isProduct(op.name) ? palette.product : palette[kind];
    const stroke = chosen ? palette.accent : mark ? mark.color : palette.frame;
    this.pen.path(outline(kind, x, y, w, h), fill, stroke, chosen || mark ? 3 : 1.2, kind === "missing" ? [5, 4] : []);
    if (kind === "variable") this.pen.path(["M", x, y + 6, "C", x, y + 14, x + w, y + 14, x + w, y + 6], null, stroke, 1);
    if (kind === "call") {
      this.pen.path(["M", x + 6, y, "L", x + 6, y + h], null, palette.frame, 1.2);
      this.pen.path(["M", x + w - 6, y, "L", x + w - 6, y + h], null, palette.frame, 1.2);
    }
    if (this.view.scale * 12 > 4.5) {
      const inset = kind === "constant" || kind === "call" ? 14 : 8;
      const top = y + (kind === "variable" ? 5 : 0);
      this.pen.text(fitted(op.name, w - 2 * inset, 12, true), x + w / 2, top + 12, 12, palette.text, true, true);
      this.pen.text(fitted(subtitle(sheet, item.node), w - 2 * inset, 10), x + w / 2, top + 26, 10, palette.muted, false, true);
      item.rows.forEach((row, at) => {
        const rowY = y + 40 + 15 * at;
        const isRow = row === this.decor.selectedNode;
        this.pen.path(["M", x + 6, rowY - 7.5, "L", x + w - 6, rowY - 7.5], null, palette.frame, 0.6);
        this.pen.path(outline("constant", x + 8, rowY - 4, 11, 8), palette.constant, palette.muted, 0.8);
        const type = sheet.type(row, 0);
        const text = `${rowName(sheet, row)} ${constantText(sheet.attrs(row)["value"]) || (type ? shapeText(type[1]) : "")}`;
        this.pen.text(fitted(text, w - 29, 10, isRow), x + 23, rowY, 10, isRow ? palette.accent : palette.text, isRow, false);
      });
    }
    if (mark) this.badge(x + w, y, mark);
  }

  /** Ends a little to the right of the corner, so that it does not lie on what is beside the node. */
  private badge(right: number, y: number, { color, sign, text }: Badge): void {
    const words = text ? `${sign} ${text}` : sign;
    const width = Math.max(16, 8 + words.length * 6.6);
    const left = right + 8 - width;
    this.pen.path(rounded(left, y - 13, width, 16, 8), color, this.decor.palette.page, 1.5);
    if (this.view.scale * 10 > 4) this.pen.text(words, left + width / 2, y - 5, 11, "#ffffff", true, true);
  }
}

/** What stands below the op of a node: its name, or for one of the raised graph what tells it from others of its kind. */
export function subtitle(sheet: Sheet, node: number): string {
  const attrs = sheet.op(node).traits.includes("raised") ? sheet.attrs(node) : {};
  if (attrs["equation"] !== undefined) return String(attrs["equation"]);
  if (attrs["heads"] !== undefined) return `${String(attrs["heads"])} heads`;
  if (attrs["epsilon"] !== undefined) return `epsilon ${String(attrs["epsilon"])}`;
  if (attrs["by"] !== undefined) return `by ${String(attrs["by"])}`;
  return leaf(sheet.names[node]);
}

/** The name of a constant inside of the node that takes it; of a weight with the scope that says what it is for. */
export function rowName(sheet: Sheet, node: number): string {
  const name = sheet.names[node];
  return sheet.base ? name.split("/").slice(-2).join("/") : leaf(name);
}

/** The value of a small constant. */
export function constantText(value: unknown): string {
  const values = (value as { values?: unknown[] } | undefined)?.values;
  if (!Array.isArray(values) || !values.length) return "";
  const texts = values.slice(0, 6).map((one) => (typeof one === "number" ? String(Number(one.toPrecision(5))) : String(one)));
  return values.length === 1 ? `= ${texts[0]}` : `= [${texts.join(", ")}${values.length > 6 ? ", …" : ""}]`;
}

export function itemTip(tree: Tree, item: Item): string {
  if (item.node >= 0) return `${tree.sheet.names[item.node]} (${tree.sheet.op(item.node).name}) ${tree.sheet.types(item.node).map(typeText).join(", ")}`;
  return item.group ? item.group.path || item.group.name : item.port!.label;
}
