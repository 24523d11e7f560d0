// Where the items of one scope go. Small scopes are laid out by dagre; large ones by layers, which takes linear time.

import * as dagre from "@dagrejs/dagre";

export interface Box {
  width: number;
  height: number;
  inner?: Task;
}

/** A scope to lay out. An item with `inner` is a scope itself, which is laid out first and gets its size from that. */
export interface Task {
  key: number;
  boxes: Box[];
  edges: [number, number][];
}

/** Left, top, width, height. */
export type Place = [number, number, number, number];

export interface Placed {
  key: number;
  width: number;
  height: number;
  places: Place[];
  /** For each edge, its points x, y, x, y, ... */
  lines: number[][];
}

export const PADDING = 18;
export const TITLE = 30;
const MOST_FOR_DAGRE = 90;
const GAP_X = 22;
const GAP_Y = 38;

/** Lays out a scope and all opened scopes in it; the inner ones come first. */
export function layOut(task: Task, done: Placed[] = []): Placed[] {
  const sizes = task.boxes.map((box) => {
    if (!box.inner) return [box.width, box.height];
    layOut(box.inner, done);
    const inner = done[done.length - 1];
    return [Math.max(inner.width + 2 * PADDING, box.width), inner.height + TITLE + PADDING];
  });
  done.push(withLoose(task, sizes));
  return done;
}

function connected(task: Task, sizes: number[][]): Placed {
  const isLarge = task.boxes.length > MOST_FOR_DAGRE || task.edges.length > 3 * MOST_FOR_DAGRE;
  return isLarge ? byLayers(task, sizes) : byDagre(task, sizes);
}

/** What no edge leads to or from goes below, in rows, so that the rest has all the width. */
function withLoose(task: Task, sizes: number[][]): Placed {
  const isBound = new Uint8Array(sizes.length);
  for (const [from, to] of task.edges) isBound[from] = isBound[to] = 1;
  const bound: number[] = [];
  const loose: number[] = [];
  sizes.forEach((_, at) => (isBound[at] ? bound : loose).push(at));
  if (!loose.length || !bound.length) return connected(task, sizes);
  const number = new Map(bound.map((at, order) => [at, order]));
  const edges = task.edges.map(([from, to]): [number, number] => [number.get(from)!, number.get(to)!]);
  const main = connected({ key: task.key, boxes: bound.map((at) => task.boxes[at]), edges }, bound.map((at) => sizes[at]));
  const places: Place[] = new Array(sizes.length);
  bound.forEach((at, order) => (places[at] = main.places[order]));
  const widest = Math.max(main.width, 700);
  let [x, y, tallest] = [0, main.height + GAP_Y, 0];
  for (const at of loose) {
    const [width, height] = sizes[at];
    if (x && x + width > widest) [x, y, tallest] = [0, y + tallest + GAP_X, 0];
    places[at] = [x, y, width, height];
    x += width + GAP_X;
    tallest = Math.max(tallest, height);
  }
  return finished(task.key, places, main.lines);
}

function byDagre(task: Task, sizes: number[][]): Placed {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ nodesep: GAP_X, ranksep: GAP_Y, edgesep: 12, marginx: 0, marginy: 0, ranker: "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  sizes.forEach(([width, height], at) => graph.setNode(String(at), { width, height }));
  for (const [from, to] of task.edges) graph.setEdge(String(from), String(to));
  dagre.layout(graph);
  const places = sizes.map(([width, height], at): Place => {
    const node = graph.node(String(at));
    return [node.x - width / 2, node.y - height / 2, width, height];
  });
  const bends = task.edges.map(([from, to]) => {
    const points: { x: number; y: number }[] = graph.edge(String(from), String(to)).points ?? [];
    return points.slice(1, -1);
  });
  return finished(task.key, places, attached(task, places, bends));
}

/** Lines that leave a box below and enter the next from above, side by side, whatever lies between. */
function attached(task: Task, places: Place[], bends: { x: number; y: number }[][]): number[][] {
  const middle = (at: number): number => places[at][0] + places[at][2] / 2;
  const ends = new Map<string, number>();
  for (const side of [0, 1]) {
    const byBox = new Map<number, number[]>();
    task.edges.forEach((edge, at) => byBox.set(edge[side], [...(byBox.get(edge[side]) ?? []), at]));
    for (const [box, edges] of byBox) {
      const near = (edge: number): number => {
        const bend = bends[edge].length > 1 ? bends[edge][side ? bends[edge].length - 1 : 0].x : middle(task.edges[edge][1 - side]);
        return bend - middle(box);
      };
      edges.sort((one, other) => near(one) - near(other));
      const gap = Math.min(16, (places[box][2] - 24) / edges.length);
      edges.forEach((edge, order) => ends.set(`${edge},${side}`, middle(box) + (order - (edges.length - 1) / 2) * gap));
    }
  }
  return task.edges.map(([from, to], at) => {
    const start = [ends.get(`${at},0`)!, places[from][1] + places[from][3]];
    const end = [ends.get(`${at},1`)!, places[to][1]];
    const between = bends[at].length > 1 || end[1] < start[1] ? bends[at].flatMap(({ x, y }) => [x, y]) : [];
    return [...start, ...between, ...end];
  });
}

/** Layers by the longest path, ordered by the middle of what each item takes and gives; wide layers are wrapped. */
function byLayers(task: Task, sizes: number[][]): Placed {
  const count = sizes.length;
  const before: number[][] = sizes.map(() => []);
  const after: number[][] = sizes.map(() => []);
  for (const [from, to] of task.edges) {
    before[to].push(from);
    after[from].push(to);
  }
  const rank = ranks(count, before, after);
  const layers: number[][] = [];
  for (let item = 0; item < count; item++) (layers[rank[item]] ??= []).push(item);
  for (let at = 0; at < layers.length; at++) layers[at] ??= [];
  const middle = new Float64Array(count);
  const spread = (layer: number[]): void => {
    const width = layer.reduce((sum, item) => sum + sizes[item][0] + GAP_X, -GAP_X);
    let x = -width / 2;
    for (const item of layer) {
      middle[item] = x + sizes[item][0] / 2;
      x += sizes[item][0] + GAP_X;
    }
  };
  layers.forEach(spread);
  for (let sweep = 0; sweep < 4; sweep++) {
    const down = sweep % 2 === 0;
    const order = down ? layers : layers.slice().reverse();
    for (const layer of order) {
      const wanted = new Map<number, number>();
      for (const item of layer) {
        const near = down ? before[item] : after[item];
        const sum = near.reduce((total, other) => total + middle[other], 0);
        wanted.set(item, near.length ? sum / near.length : middle[item]);
      }
      layer.sort((one, other) => wanted.get(one)! - wanted.get(other)!);
      spread(layer);
    }
  }
  const widest = Math.max(1600, Math.sqrt(count) * 160);
  const places: Place[] = new Array(count);
  let y = 0;
  for (const layer of layers) {
    let row: number[] = [];
    let width = 0;
    const put = (): void => {
      const height = row.reduce((most, item) => Math.max(most, sizes[item][1]), 0);
      let x = -(width - GAP_X) / 2;
      for (const item of row) {
        places[item] = [x, y + (height - sizes[item][1]) / 2, sizes[item][0], sizes[item][1]];
        x += sizes[item][0] + GAP_X;
      }
      y += height + GAP_Y;
      row = [];
      width = 0;
    };
    for (const item of layer) {
      if (row.length && width + sizes[item][0] > widest) put();
      row.push(item);
      width += sizes[item][0] + GAP_X;
    }
    if (row.length) put();
  }
  return finished(task.key, places, attached(task, places, task.edges.map(() => [])));
}

/** The longest way from an item without inputs; edges that close a circle do not count. */
function ranks(count: number, before: number[][], after: number[][]): Int32Array {
  const rank = new Int32Array(count);
  const waiting = Int32Array.from(before, (list) => list.length);
  const isDone = new Uint8Array(count);
  let ready: number[] = [];
  for (let item = 0; item < count; item++) if (!waiting[item]) ready.push(item);
  let next = 0;
  for (let left = count; left > 0; ) {
    if (!ready.length) {
      while (isDone[next]) next++;
      ready.push(next);
    }
    const item = ready.pop()!;
    if (isDone[item]) continue;
    isDone[item] = 1;
    left--;
    for (const other of after[item]) {
      if (isDone[other]) continue;
      rank[other] = Math.max(rank[other], rank[item] + 1);
      if (--waiting[other] === 0) ready.push(other);
    }
  }
  // What nothing but constants stands before is put right above what takes it.
  for (let item = 0; item < count; item++) {
    if (!before[item].length && after[item].length) {
      rank[item] = Math.max(0, Math.min(...after[item].map((other) => rank[other])) - 1);
    }
  }
  ready = [];
  return rank;
}

/** Moves everything so that it begins at 0, 0. */
function finished(key: number, places: Place[], lines: number[][]): Placed {
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  const see = (x: number, y: number): void => {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  };
  for (const [x, y, width, height] of places) {
    see(x, y);
    see(x + width, y + height);
  }
  for (const line of lines) for (let at = 0; at < line.length; at += 2) see(line[at], line[at + 1]);
  if (!places.length) return { key, width: 0, height: 0, places, lines };
  for (const place of places) {
    place[0] -= left;
    place[1] -= top;
  }
  for (const line of lines) {
    for (let at = 0; at < line.length; at += 2) {
      line[at] -= left;
      line[at + 1] -= top;
    }
  }
  return { key, width: right - left, height: bottom - top, places, lines };
}
