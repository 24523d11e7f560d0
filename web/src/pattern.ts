// Picks a pattern as `tfsmith extract` does: from the outputs back to the barriers, along inputs that carry tensors.

import { CONTROL, Sheet } from "./data";

export class Pattern {
  readonly seeds = new Set<number>();
  readonly barriers = new Set<number>();
  withConstants = true;
  nodes = new Set<number>();
  reached = new Set<number>();
  open: number[] = [];

  constructor(readonly sheet: Sheet) {}

  /** What a click means: first the output, then barriers; a second click takes it back. */
  click(node: number): void {
    if (this.seeds.delete(node) || this.barriers.delete(node)) this.grow();
    else if (!this.seeds.size && this.isNode(node)) this.addSeed(node);
    else this.addBarrier(node);
  }

  addSeed(node: number): void {
    if (!this.isNode(node)) return;
    this.barriers.delete(node);
    this.seeds.add(node);
    this.grow();
  }

  addBarrier(node: number): void {
    if (this.isResult(node) || this.sheet.isMissing(node)) return;
    this.seeds.delete(node);
    this.barriers.add(node);
    this.grow();
  }

  private isResult(node: number): boolean {
    const { data } = this.sheet;
    return node >= data.names.length - data.rets && node < data.names.length;
  }

  private isNode(node: number): boolean {
    return node >= this.sheet.data.args && !this.isResult(node) && !this.sheet.isMissing(node);
  }

  grow(): void {
    const { sheet } = this;
    this.nodes = new Set();
    this.reached = new Set();
    this.open = [];
    const todo = [...this.seeds];
    while (todo.length) {
      const node = todo.pop()!;
      if (this.nodes.has(node) || this.reached.has(node)) continue;
      if (this.barriers.has(node) || node < sheet.data.args) {
        this.reached.add(node);
        continue;
      }
      this.nodes.add(node);
      let count = 0;
      for (let edge = sheet.starts[node]; edge < sheet.starts[node + 1]; edge++) {
        if (sheet.outputs[edge] === CONTROL) continue;
        count++;
        todo.push(sheet.sources[edge]);
      }
      const isHeld = this.withConstants && sheet.op(node).kind === "constant";
      if (!count && !isHeld) this.open.push(node);
    }
  }

  closeEnds(): void {
    for (const node of this.open) if (!this.seeds.has(node)) this.barriers.add(node);
    this.grow();
  }

  get isWhole(): boolean {
    return this.seeds.size > 0 && !this.open.length;
  }

  command(model: string): string {
    const words = ["tfsmith", "extract", quoted(model), "-o", "pattern.pb"];
    if (this.sheet.data.name) words.push("--function", quoted(this.sheet.data.name));
    words.push("-s", ...this.named(this.seeds));
    const barriers = this.named(this.barriers);
    if (barriers.length) words.push("-b", ...barriers);
    if (this.withConstants) words.push("--constants");
    return words.join(" ");
  }

  names(nodes: Iterable<number>): string[] {
    return [...nodes].map((node) => this.sheet.names[node]);
  }

  private named(nodes: Iterable<number>): string[] {
    return this.names(nodes).map(quoted);
  }
}

/** A word of a command line for a POSIX shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
