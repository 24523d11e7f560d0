// The scopes of a sheet: by name, with equal blocks stacked, and with large flat scopes cut into parts.

import { CONTROL, Sheet, leaf, typeBytes, type TensorType } from "./data";
import { PADDING, TITLE, type Box, type Placed, type Task } from "./layout";

export type GroupKind = "scope" | "stack" | "part";

export interface Item {
  node: number; // -1 for a scope or a port
  group: Group | null;
  port: Port | null;
  rows: number[]; // constants that are shown inside the node that takes them
  width: number;
  height: number;
}

/** The end of edges that lead out of a scope. */
export interface Port {
  isInput: boolean;
  label: string;
  nodes: number[];
}

export interface Edge {
  from: number;
  to: number;
  source: number;
  output: number;
  target: number;
  count: number;
  isControl: boolean;
  type: TensorType | null;
  bytes: number;
}

const DEEPEST = 60;
const MOST_ITEMS = 1500;
const PART = 200;
const LEAST_BLOCK = 4;
const MOST_PORTS = 6;
const MOST_ROWS = 4;
const MOST_VARIABLES = 12;

export class Group {
  groups: Group[] = [];
  nodes: number[] = [];
  count = 0;
  isOpen = false;
  isArranged = false;
  items: Item[] = [];
  edges: Edge[] = [];
  placed: Placed | null = null;
  isStale = true;
  constructor(
    readonly id: number,
    readonly name: string,
    readonly path: string,
    public parent: Group | null,
    public kind: GroupKind = "scope",
  ) {}

  /** The variable that is all there is in it, or -1. */
  variable = -1;
  /** Whether it saves and restores the model: its edges, which lead to every variable, are not drawn. */
  isAside = false;

  get isVariable(): boolean {
    return this.variable >= 0;
  }
}

export type Measure = (item: Item) => { width: number; height: number };

export class Tree {
  readonly root: Group;
  readonly home: Group[];
  readonly all: Group[] = [];
  private readonly labels: string[];
  private readonly byPath = new Map<string, Group>();

  constructor(
    readonly sheet: Sheet,
    private readonly measure: Measure,
    groups: string[] | null = null,
  ) {
    this.root = this.make("", "", null);
    this.root.isOpen = true;
    this.home = new Array(sheet.count);
    const names = groups ? sheet.names.map((name, node) => `${groups[node] ?? ""}/${leaf(name)}#${node}`) : this.withResources(this.withSaver(sheet.names));
    this.labels = names;
    const prefixes = this.prefixes(names);
    for (let node = 0; node < sheet.count; node++) {
      const name = names[node] ?? sheet.names[node];
      const path = prefixes.has(name) ? name : name.slice(0, Math.max(0, name.lastIndexOf("/")));
      const group = this.scope(path);
      this.home[node] = group;
      group.nodes.push(node);
      for (let outer: Group | null = group; outer; outer = outer.parent) outer.count++;
    }
    this.flatten(this.root);
    for (const group of this.all) {
      group.variable = this.variableOf(group);
      group.isAside = group.parent === this.root && (group.path === "saver" || this.inside(group).some((node) => sheet.op(node).traits.includes("saver")));
    }
    this.arrange(this.root);
    let only = this.root; // one scope that holds nearly everything is opened at once
    while (only.groups.length === 1 && only.nodes.length <= 12 && only.groups[0].count > 8 && only.items.length <= 14) {
      only = only.groups[0];
      this.open(only);
    }
  }

  /** Names in which calls that save and restore the model, and what only they take and give, have a scope of their own; many variables too. */
  private withSaver(names: string[]): string[] {
    const { sheet } = this;
    const { sheets, tables } = sheet.model;
    const savers = new Set(sheets.filter((one) => one.name && one.ops.some((op) => tables.ops[op].traits.includes("saver"))).map((one) => one.name));
    const found = new Set<number>();
    for (let node = 0; savers.size && node < sheet.data.names.length; node++) {
      if (sheet.op(node).kind === "call" && !names[node].includes("/") && sheet.calls(node).some((name) => savers.has(name))) found.add(node);
    }
    const todo = [...found];
    while (todo.length) {
      const node = todo.pop()!;
      const near = sheet.uses(node).map(({ user }) => user);
      for (let edge = sheet.starts[node]; edge < sheet.starts[node + 1]; edge++) near.push(sheet.sources[edge]);
      for (const other of near) {
        if (found.has(other) || sheet.isMissing(other) || names[other].includes("/") || sheet.kind(other) === "variable") continue;
        const isOwn = sheet.uses(other).every(({ user }) => found.has(user));
        if (isOwn || sheet.sources.slice(sheet.starts[other], sheet.starts[other + 1]).some((source) => found.has(source))) {
          found.add(other);
          todo.push(other);
        }
      }
    }
    if (!found.size) return names;
    const variables = new Set(names.filter((_, node) => sheet.kind(node) === "variable"));
    const isPart = (name: string): boolean => {
      for (let at = name.length; at > 0; at = name.lastIndexOf("/", at - 1)) if (variables.has(name.slice(0, at))) return true;
      return false;
    };
    const isMany = variables.size > MOST_VARIABLES; // a graph that only calls functions: its variables are folded as one
    return names.map((name, node) => (found.has(node) ? `saver/${name}` : isMany && isPart(name) ? `variables/${name}` : name));
  }

  /** Names in which the variables that a function is given, if they are many, have a scope of their own. */
  private withResources(names: string[]): string[] {
    const { sheet } = this;
    const isResource = (node: number): boolean => node < sheet.data.args && sheet.type(node, 0)?.[0] === "resource";
    const count = names.filter((_, node) => isResource(node)).length;
    return count > MOST_VARIABLES ? names.map((name, node) => (isResource(node) ? `variables/${name}` : name)) : names;
  }

  private make(name: string, path: string, parent: Group | null, kind: GroupKind = "scope"): Group {
    const group = new Group(this.all.length, name, path, parent, kind);
    this.all.push(group);
    this.byPath.set(path, group);
    return group;
  }

  private prefixes(names: string[]): Set<string> {
    const found = new Set<string>();
    for (const name of names) {
      let depth = 0;
      for (let at = name.indexOf("/"); at >= 0 && depth < DEEPEST; at = name.indexOf("/", at + 1), depth++) {
        found.add(name.slice(0, at));
      }
    }
    return found;
  }

  private scope(path: string): Group {
    if (!path) return this.root;
    const known = this.byPath.get(path);
    if (known) return known;
    let group = this.root;
    let start = 0;
    for (let depth = 0; start <= path.length; depth++) {
      const cut = depth < DEEPEST - 1 ? path.indexOf("/", start) : -1;
      const end = cut < 0 ? path.length : cut;
      const inner = path.slice(0, end);
      let next = this.byPath.get(inner);
      if (!next) {
        next = this.make(path.slice(start, end) || "/", inner, group);
        group.groups.push(next);
      }
      group = next;
      if (cut < 0) break;
      start = end + 1;
    }
    return group;
  }

  /** A scope of a single node, apart from the constants that it takes, is no scope: the node takes its place. */
  private flatten(group: Group): void {
    group.groups = group.groups.filter((inner) => {
      this.flatten(inner);
      if (!this.isSingle(inner)) return true;
      for (const node of inner.nodes) {
        this.home[node] = group;
        group.nodes.push(node);
      }
      return false;
    });
  }

  private isSingle(group: Group): boolean {
    if (group.groups.length || group.nodes.length > 1 + MOST_ROWS) return false;
    const others = group.nodes.filter((node) => this.onlyUser(node, group) < 0);
    return others.length === 1;
  }

  find(path: string): Group | undefined {
    return this.byPath.get(path);
  }

  /** The one variable of a small scope that has nothing else but what reads and fills it. */
  private variableOf(group: Group): number {
    if (group.count > 10 || group.groups.length || !group.parent) return -1;
    const found = group.nodes.filter((node) => this.sheet.kind(node) === "variable");
    return found.length === 1 ? found[0] : -1;
  }

  open(group: Group): void {
    this.arrange(group);
    group.isOpen = true;
    this.spoil(group);
  }

  close(group: Group): void {
    if (!group.parent) return;
    group.isOpen = false;
    this.spoil(group.parent);
  }

  private spoil(group: Group): void {
    for (let outer: Group | null = group; outer; outer = outer.parent) outer.isStale = true;
  }

  /** Opens all scopes around a node, or around a scope. */
  reveal(node: number): void {
    for (;;) {
      const closed = this.chain(this.home[node]).find((group) => !group.isOpen);
      if (!closed) return;
      this.open(closed);
    }
  }

  /** A scope and those around it, outermost first. */
  chain(group: Group): Group[] {
    const found: Group[] = [];
    for (let outer: Group | null = group; outer; outer = outer.parent) found.unshift(outer);
    return found;
  }

  /** Decides what a scope shows: stacks of equal blocks, parts of what is too much, ports, constants inside nodes. */
  private arrange(group: Group): void {
    if (group.isArranged) return;
    group.isArranged = true;
    if (group.kind === "scope") this.stack(group);
    if (group.nodes.length + group.groups.length > MOST_ITEMS) this.divide(group);
    this.connect(group);
  }

  private stack(group: Group): void {
    if (group.groups.length < 2) return;
    const alike = new Map<string, Group[]>();
    for (const inner of group.groups) {
      if (inner.count < LEAST_BLOCK || inner.isVariable) continue;
      const key = this.likeness(inner);
      const found = alike.get(key);
      if (found) found.push(inner);
      else alike.set(key, [inner]);
    }
    for (const members of alike.values()) {
      if (members.length < 2 || members.length === group.groups.length + group.nodes.length) continue;
      const name = `${members[0].name} … ${members[members.length - 1].name}`;
      const made = this.make(name, `${group.path}/${members[0].name}…`, group, "stack");
      const isMember = new Set(members);
      group.groups = group.groups.filter((inner) => !isMember.has(inner));
      group.groups.push(made);
      made.groups = members;
      made.count = members.reduce((sum, inner) => sum + inner.count, 0);
      for (const inner of members) inner.parent = made;
    }
  }

  /** Whether a scope holds nothing but equal blocks: it is a stack by itself. */
  private isUniform(group: Group): boolean {
    if (group.nodes.length || group.groups.length < 2 || group.groups[0].count < LEAST_BLOCK) return false;
    const { count } = group.groups[0];
    if (group.groups.some((inner) => inner.count !== count)) return false;
    const first = this.likeness(group.groups[0]);
    return group.groups.every((inner) => this.likeness(inner) === first);
  }

  /** What a scope computes, apart from names: ops, types and edges inside, in an order that equal scopes share. */
  private likeness(group: Group): string {
    const { sheet } = this;
    const nodes: number[] = [];
    const collect = (inner: Group): void => {
      nodes.push(...inner.nodes);
      inner.groups.forEach(collect);
    };
    collect(group);
    const start = group.path.length + 1;
    const key = new Map<number, string>();
    for (const node of nodes) key.set(node, this.labels[node].slice(start).replace(/\d+/g, "#"));
    nodes.sort((one, other) => (key.get(one)! < key.get(other)! ? -1 : key.get(one)! > key.get(other)! ? 1 : one - other));
    const place = new Map(nodes.map((node, at) => [node, at]));
    return nodes
      .map((node) => {
        const inputs: string[] = [];
        for (let edge = sheet.starts[node]; edge < sheet.starts[node + 1]; edge++) {
          if (sheet.outputs[edge] === CONTROL) continue;
          const inside = place.get(sheet.sources[edge]);
          inputs.push(`${inside ?? "x"}.${sheet.outputs[edge]}`);
        }
        return `${key.get(node)!}:${sheet.op(node).name}(${inputs.join()})${(sheet.data.types[node] ?? []).join()}`;
      })
      .join(";");
  }

  /** Cuts a flat scope into parts, along the order of its nodes in the file. */
  private divide(group: Group): void {
    const size = Math.max(PART, Math.ceil(Math.sqrt(group.nodes.length)));
    const nodes = group.nodes;
    group.nodes = [];
    for (let start = 0; start < nodes.length; start += size) {
      const piece = nodes.slice(start, start + size);
      const name = `${leaf(this.sheet.names[piece[0]])} … ${leaf(this.sheet.names[piece[piece.length - 1]])}`;
      const part = this.make(name, `${group.path}/…${start}`, group, "part");
      part.nodes = piece;
      part.count = piece.length;
      for (const node of piece) this.home[node] = part;
      group.groups.push(part);
    }
    if (group.groups.length <= MOST_ITEMS) return;
    const groups = group.groups;
    group.groups = [];
    for (let start = 0; start < groups.length; start += PART) {
      const piece = groups.slice(start, start + PART);
      const part = this.make(`${piece[0].name} … ${piece[piece.length - 1].name}`, `${group.path}/……${start}`, group, "part");
      part.groups = piece;
      for (const inner of piece) {
        inner.parent = part;
        part.count += inner.count;
      }
      group.groups.push(part);
    }
  }

  private inside(group: Group): number[] {
    const nodes: number[] = group.nodes.slice();
    for (const inner of group.groups) for (const node of this.inside(inner)) nodes.push(node);
    return nodes;
  }

  private connect(group: Group): void {
    const { sheet } = this;
    const items: Item[] = [];
    const place = new Map<Group | number, number>();
    const add = (key: Group | number, item: Item): void => {
      place.set(key, items.length);
      items.push(item);
    };
    const blank = { node: -1, group: null, port: null, rows: [], width: 0, height: 0 };
    for (const inner of group.groups) {
      if (inner.kind === "scope" && this.isUniform(inner)) inner.kind = "stack";
      add(inner, { ...blank, group: inner });
    }
    const isFolded = new Set<number>();
    const rowsOf = new Map<number, number[]>();
    for (const node of group.nodes) {
      const user = this.onlyUser(node, group);
      if (user < 0 || (rowsOf.get(user)?.length ?? 0) >= MOST_ROWS) continue;
      isFolded.add(node);
      if (rowsOf.has(user)) rowsOf.get(user)!.push(node);
      else rowsOf.set(user, [node]);
    }
    for (const node of group.nodes) if (!isFolded.has(node)) add(node, { ...blank, node, rows: rowsOf.get(node) ?? [] });
    for (const node of isFolded) place.set(node, place.get(this.onlyUser(node, group))!);

    const itemOf = (node: number): number => {
      const own = place.get(node);
      if (own !== undefined && this.home[node] === group) return own;
      for (let inner: Group | null = this.home[node]; inner; inner = inner.parent) {
        if (inner.parent === group) return place.get(inner)!;
      }
      return -1;
    };
    const edges = new Map<string, Edge>();
    const connect = (from: number, to: number, edge: number, target: number): void => {
      if (from === to || items[from].group?.isAside || items[to].group?.isAside) return;
      const source = sheet.sources[edge];
      const output = sheet.outputs[edge];
      const type = sheet.type(source, output);
      const key = `${from},${to}`;
      const known = edges.get(key);
      if (!known) {
        edges.set(key, { from, to, source, output, target, count: 1, isControl: output === CONTROL, type, bytes: typeBytes(type) });
        return;
      }
      known.count++;
      if (output === CONTROL) return;
      const bytes = typeBytes(type);
      if (known.isControl || bytes > known.bytes) Object.assign(known, { source, output, target, type, bytes, isControl: false });
    };
    const isAside = (node: number): boolean => this.chain(this.home[node])[1]?.isAside ?? false;
    const entering = new Map<number, { edge: number; target: number }[]>();
    const leaving = new Map<number, { edge: number; user: number }[]>();
    for (const node of this.inside(group)) {
      const to = itemOf(node);
      for (let edge = sheet.starts[node]; edge < sheet.starts[node + 1]; edge++) {
        const from = itemOf(sheet.sources[edge]);
        if (from >= 0) connect(from, to, edge, node);
        else if (isAside(sheet.sources[edge])) continue;
        else if (entering.has(sheet.sources[edge])) entering.get(sheet.sources[edge])!.push({ edge, target: node });
        else entering.set(sheet.sources[edge], [{ edge, target: node }]);
      }
      if (!group.parent) continue;
      for (let index = 0; index < sheet.useCount(node); index++) {
        const user = sheet.userAt(node, index);
        if (itemOf(user) >= 0 || isAside(user)) continue;
        const found = leaving.get(node);
        if (found) found.push({ edge: -1, user });
        else leaving.set(node, [{ edge: -1, user }]);
      }
    }
    this.addPorts(group, items, entering, leaving, itemOf, connect, edges);
    for (const item of items) Object.assign(item, this.measure(item));
    group.items = items;
    group.edges = [...edges.values()];
  }

  private addPorts(
    group: Group,
    items: Item[],
    entering: Map<number, { edge: number; target: number }[]>,
    leaving: Map<number, { edge: number; user: number }[]>,
    itemOf: (node: number) => number,
    connect: (from: number, to: number, edge: number, target: number) => void,
    edges: Map<string, Edge>,
  ): void {
    if (!group.parent) return;
    const { sheet } = this;
    const add = (port: Port): number => items.push({ node: -1, group: null, port, rows: [], width: 0, height: 0 }) - 1;
    const data = [...entering].filter(([, uses]) => uses.some((use) => sheet.outputs[use.edge] !== CONTROL));
    const sources = data.length ? data : [...entering];
    if (sources.length > MOST_PORTS) {
      const port = add({ isInput: true, label: `${sources.length} inputs`, nodes: sources.map(([source]) => source) });
      for (const [, uses] of sources) for (const use of uses) connect(port, itemOf(use.target), use.edge, use.target);
    } else {
      for (const [source, uses] of sources) {
        const port = add({ isInput: true, label: sheet.names[source], nodes: [source] });
        for (const use of uses) connect(port, itemOf(use.target), use.edge, use.target);
      }
    }
    const byItem = new Map<number, { users: Set<number>; source: number }>();
    for (const [node, uses] of leaving) {
      const item = itemOf(node);
      const found = byItem.get(item) ?? { users: new Set<number>(), source: node };
      for (const use of uses) found.users.add(use.user);
      byItem.set(item, found);
    }
    const merged = byItem.size > MOST_PORTS;
    const all = new Set<number>();
    for (const { users } of byItem.values()) for (const user of users) all.add(user);
    const shared = merged ? add({ isInput: false, label: `${all.size} consumers`, nodes: [...all] }) : -1;
    for (const [item, { users, source }] of byItem) {
      const label = users.size === 1 ? sheet.names[[...users][0]] : `${users.size} consumers`;
      const port = merged ? shared : add({ isInput: false, label, nodes: [...users] });
      const type = sheet.type(source, 0);
      edges.set(`${item},${port}`, {
        from: item, to: port, source, output: 0, target: [...users][0], count: users.size, isControl: false, type, bytes: typeBytes(type),
      });
    }
  }

  /** The node beside a constant that alone takes it, so that it can be shown inside of it; else -1. */
  private onlyUser(node: number, group: Group): number {
    const { sheet } = this;
    if (sheet.kind(node) !== "constant" || sheet.useCount(node) !== 1) return -1;
    if (sheet.starts[node + 1] > sheet.starts[node]) return -1;
    const user = sheet.userAt(node, 0);
    return this.home[user] === group && sheet.kind(user) !== "constant" ? user : -1;
  }

  /** What is to be laid out: scopes that changed; those that did not have their size. */
  task(group: Group = this.root): Task {
    const boxes = group.items.map((item): Box => {
      const inner = item.group;
      if (!inner?.isOpen) return { width: item.width, height: item.height };
      if (inner.isStale || !inner.placed) return { width: item.width, height: 0, inner: this.task(inner) };
      return { width: Math.max(inner.placed.width + 2 * PADDING, item.width), height: inner.placed.height + TITLE + PADDING };
    });
    return { key: group.id, boxes, edges: group.edges.map((edge): [number, number] => [edge.from, edge.to]) };
  }

  accept(placed: Placed[]): void {
    for (const one of placed) {
      const group = this.all[one.key];
      group.placed = one;
      group.isStale = false;
    }
  }
}
