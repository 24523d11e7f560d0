// The model as Python wrote it (src/tfsmith/view/page_data.py), decoded, and what follows from it.

export interface OpFacts {
  name: string;
  kind: Kind;
  doc: string;
  traits: string[];
  unknown?: boolean;
  inputs?: string[];
  outputs?: string[];
  single?: boolean[];
  stateful?: boolean;
}

export type Kind = "op" | "input" | "output" | "variable" | "constant" | "call" | "missing";
export type Dims = number[] | null;
export type TensorType = [string | null, Dims];

export interface SheetData {
  name: string;
  names: string[];
  ops: number[];
  inputs: number[];
  types: number[][];
  attrs: number[];
  devices: number[];
  missing: string[];
  args: number;
  rets: number;
  outputs?: number[];
  keys?: Record<string, string>;
  /** The scope of each node, where it is not that of its name. */
  scopes?: string[];
}

/** A sheet whose nodes stand for nodes of another one, by number. */
export interface RaisedData extends SheetData {
  covers: number[][];
  scopes: string[];
}

export interface Mark {
  sheet: string;
  node: string;
  kind: string;
  text: string;
  value?: number;
}

export interface Overlay {
  name: string;
  title: string;
  side: number;
  /** What the values of marks are: seconds add up in a scope, of differences it has the largest. */
  measure: "" | "seconds" | "difference";
  kinds: Record<string, { label: string; sign: string; color: string }>;
  marks: Mark[];
  notes: string[];
}

export interface Variable {
  name: string;
  dtype: string;
  shape: Dims;
  bytes: number;
  optimizer_slot: boolean;
  variable?: string;
}

export interface Endpoint {
  dtype: string;
  shape: Dims;
  name: string;
}

export interface ModelData {
  summary: {
    path: string | null;
    title: string;
    tensorflow_version: string;
    variables: { count: number; parameters: number; bytes: number };
    constants?: { count: number; parameters: number; bytes: number };
    assets?: string[];
    side_files?: string[];
    graph?: {
      nodes: number;
      functions: number;
      function_nodes: number;
      ops: Record<string, number>;
      custom_ops: string[];
      missing?: { node: string; takes: string }[];
    };
  };
  variables: Variable[];
  networks: { text: string; signatures: string[]; function: string | null }[];
  signatures: Record<string, { method_name: string; inputs: Record<string, Endpoint>; outputs: Record<string, Endpoint> }>;
  collections: Record<string, { kind: string; count: number; values: unknown[] }>;
  sheets: SheetData[];
  /** For each sheet in which something was recognised, the raised graph. */
  raised: Record<string, RaisedData>;
  tables: { ops: OpFacts[]; types: TensorType[]; attrs: Record<string, unknown>[]; devices: string[] };
}

export interface PageData {
  models: ModelData[];
  overlays: Overlay[];
  weights: Record<string, WeightFacts> | null;
  command: string;
  server: string;
  version: string;
}

export interface WeightFacts {
  count: number;
  dtype: string;
  first?: unknown[];
  finite?: number;
  nan?: number;
  infinite?: number;
  zeros?: number;
  min?: number;
  max?: number;
  mean?: number;
  deviation?: number;
  histogram?: number[];
  error?: string;
}

/** Decodes what stands in the page: JSON, packed with gzip and written in base64. */
export async function readPage(text: string): Promise<PageData> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(unpacked).json()) as PageData;
}

export const CONTROL = -1;

/** A graph or a function: nodes by number, with inputs and consumers. Inputs that are not there are nodes of their own. */
export class Sheet {
  readonly count: number;
  readonly names: string[];
  readonly starts: Int32Array;
  readonly sources: Int32Array;
  readonly outputs: Int32Array;
  private readonly useStarts: Int32Array;
  private readonly users: Int32Array;
  private readonly positions: Int32Array;
  private readonly answers: Set<number>;
  private byName: Map<string, number> | null = null;

  /** The scope of each node, where it is not that of its name. */
  readonly scopes: string[] | null;
  private standIns: Map<string, number> | null = null;

  constructor(
    readonly model: ModelData,
    readonly data: SheetData,
    /** The sheet that this one is the raised graph of. */
    readonly base: Sheet | null = null,
  ) {
    this.scopes = data.scopes ?? null;
    const real = data.names.length;
    this.count = real + data.missing.length;
    this.names = data.missing.length ? data.names.concat(data.missing) : data.names;
    const edges = (data.inputs.length - real) / 2;
    this.starts = new Int32Array(this.count + 1);
    this.sources = new Int32Array(edges);
    this.outputs = new Int32Array(edges);
    let at = 0;
    let edge = 0;
    for (let node = 0; node < real; node++) {
      this.starts[node] = edge;
      const inputs = data.inputs[at++];
      for (let number = 0; number < inputs; number++) {
        const source = data.inputs[at++];
        this.sources[edge] = source < 0 ? real - 1 - source : source;
        this.outputs[edge] = data.inputs[at++];
        edge++;
      }
    }
    this.starts.fill(edge, real);
    const counts = new Int32Array(this.count + 1);
    for (const source of this.sources) counts[source + 1]++;
    for (let node = 0; node < this.count; node++) counts[node + 1] += counts[node];
    this.useStarts = counts.slice();
    this.users = new Int32Array(edges);
    this.positions = new Int32Array(edges);
    const next = counts.slice();
    for (let node = 0; node < real; node++) {
      for (let e = this.starts[node]; e < this.starts[node + 1]; e++) {
        const place = next[this.sources[e]]++;
        this.users[place] = node;
        this.positions[place] = e;
      }
    }
    this.answers = new Set(data.outputs ?? []);
  }

  isMissing(node: number): boolean {
    return node >= this.data.names.length;
  }

  op(node: number): OpFacts {
    if (this.isMissing(node)) return MISSING;
    return this.model.tables.ops[this.data.ops[node]];
  }

  kind(node: number): Kind {
    return this.answers.has(node) ? "output" : this.op(node).kind;
  }

  attrs(node: number): Record<string, unknown> {
    return this.isMissing(node) ? {} : this.model.tables.attrs[this.data.attrs[node]];
  }

  device(node: number): string {
    return this.isMissing(node) ? "" : this.model.tables.devices[this.data.devices[node]];
  }

  types(node: number): TensorType[] {
    return this.isMissing(node) ? [] : this.data.types[node].map((number) => this.model.tables.types[number]);
  }

  type(node: number, output: number): TensorType | null {
    if (output < 0 || this.isMissing(node)) return null;
    const number = this.data.types[node][output];
    return number === undefined ? null : this.model.tables.types[number];
  }

  find(name: string): number {
    if (!this.byName) {
      this.byName = new Map();
      for (let node = 0; node < this.count; node++) this.byName.set(this.names[node], node);
    }
    return this.byName.get(name) ?? -1;
  }

  /** The nodes of the graph that a node of the raised graph stands for. */
  covers(node: number): string[] {
    return this.base && !this.isMissing(node) ? (this.data as RaisedData).covers[node].map((number) => this.base!.names[number]) : [];
  }

  /** The node that is called so; in a raised graph the one that stands for it. */
  standIn(name: string): number {
    if (!this.base) return this.find(name);
    if (!this.standIns) {
      this.standIns = new Map();
      for (let node = 0; node < this.count; node++) for (const covered of [this.names[node], ...this.covers(node)]) this.standIns.set(covered, node);
    }
    return this.standIns.get(name) ?? -1;
  }

  /** The edges that use a node: positions in `sources` and `outputs`, with the node that takes each. */
  uses(node: number): { user: number; edge: number }[] {
    const found = [];
    for (let at = this.useStarts[node]; at < this.useStarts[node + 1]; at++) {
      found.push({ user: this.users[at], edge: this.positions[at] });
    }
    return found;
  }

  useCount(node: number): number {
    return this.useStarts[node + 1] - this.useStarts[node];
  }

  userAt(node: number, index: number): number {
    return this.users[this.useStarts[node] + index];
  }

  /** The functions that a node calls. */
  calls(node: number): string[] {
    const found: string[] = [];
    const look = (value: unknown): void => {
      if (Array.isArray(value)) value.forEach(look);
      else if (value && typeof value === "object" && typeof (value as { function?: unknown }).function === "string") {
        found.push((value as { function: string }).function);
      }
    };
    Object.values(this.attrs(node)).forEach(look);
    if (this.model.sheets.some((sheet) => sheet.name && sheet.name === this.op(node).name)) found.push(this.op(node).name);
    return [...new Set(found)];
  }

  /** What the weights of a node are called in `weights`, or "". */
  weightKey(node: number): string {
    if (this.base) {
      const own = this.base.find(this.names[node]);
      return own < 0 ? "" : this.base.weightKey(own);
    }
    const key = this.data.keys?.[String(node)];
    if (key !== undefined) return `variable:${key}`;
    if (this.data.scopes) return ""; // no graph of TensorFlow: only what has a key can be read
    return this.op(node).kind === "constant" ? `node:${this.data.name}:${this.names[node]}` : "";
  }
}

const MISSING: OpFacts = { name: "(not in the file)", kind: "missing", doc: "Another node takes it, and it is not there.", traits: [] };

const SIZES: Record<string, number> = { float64: 8, int64: 8, uint64: 8, complex64: 8, complex128: 16, float16: 2, bfloat16: 2, int16: 2, uint16: 2 };

/** How many bytes a tensor takes, with 1 for sizes that are open. */
export function typeBytes(type: TensorType | null): number {
  if (!type || !type[1]) return 0;
  const name = type[0] ?? "";
  const size = SIZES[name] ?? (/8|bool/.test(name) ? 1 : 4);
  return type[1].reduce((product, dim) => product * Math.max(dim, 1), size);
}

export function shapeText(dims: Dims): string {
  if (!dims) return "?";
  return dims.length ? dims.map((dim) => (dim < 0 ? "?" : String(dim))).join("×") : "scalar";
}

export function typeText(type: TensorType | null): string {
  if (!type) return "";
  return `${type[0] ?? "?"} ${shapeText(type[1])}`;
}

export function humanBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    unit++;
  }
  return `${unit ? bytes.toFixed(bytes < 10 ? 1 : 0) : bytes} ${units[unit]}`;
}

export function humanCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** A measured value in few characters. */
export function measured(value: number, measure: Overlay["measure"]): string {
  if (measure === "seconds") return value >= 1 ? `${value.toPrecision(3)} s` : value >= 1e-4 ? `${Number((value * 1e3).toPrecision(2))} ms` : `${Math.round(value * 1e6)} µs`;
  return value === 0 ? "" : value.toPrecision(2).replace(/\.?0*e/, "e");
}

/** A text that is short enough for a line; its middle goes. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

/** The last part of a name. */
export function leaf(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1) || name;
}
