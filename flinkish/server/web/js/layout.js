// Places for the vertices of a graph: levels from the sources, few crossings, long edges led around the boxes between.

/**
 * `nodes` are [{id, inputs: [{id}]}]. Returns {places: Map(id -> {x, y}), routes: [{from, to, input, points: [[x, y], ...]}], width, height}.
 * With `down`, levels are below each other instead of beside each other.
 */
export function layout(nodes, { boxWidth, boxHeight, levelGap, gap, down }) {
  const levels = byLevel(nodes);
  const rows = [];
  for (const node of nodes) (rows[levels.get(node.id)] ??= []).push({ id: node.id, node });
  const chains = [];
  for (const node of nodes) {
    for (const input of node.inputs ?? []) {
      if (!levels.has(input.id)) continue;
      const chain = [{ id: input.id }];
      for (let level = levels.get(input.id) + 1; level < levels.get(node.id); level++) {
        const bend = { id: `${input.id}>${node.id}>${level}`, bend: true };
        rows[level].push(bend);
        chain.push(bend);
      }
      chain.push({ id: node.id });
      chains.push({ from: input.id, to: node.id, input, chain });
    }
  }
  order(rows, chains);
  // "Along" is the direction from level to level, "across" the other one.
  const [along, across] = down ? [boxHeight, boxWidth] : [boxWidth, boxHeight];
  const extent = (item) => (item.bend ? 24 : across);
  const lengths = rows.map((row) => row.reduce((sum, item) => sum + extent(item) + gap, -gap));
  const longest = Math.max(...lengths, 0);
  const centres = new Map();
  rows.forEach((row, level) => {
    // Below each other, levels begin at the left: what is in the middle of a wide graph is outside a narrow window.
    let at = down ? 0 : (longest - lengths[level]) / 2;
    for (const item of row) {
      centres.set(item.id, { level, centre: at + extent(item) / 2, bend: item.bend });
      at += extent(item) + gap;
    }
  });
  const point = (a, b) => (down ? [b, a] : [a, b]);
  const start = (level) => level * (along + levelGap);
  const places = new Map();
  for (const { id } of nodes) {
    const { level, centre } = centres.get(id);
    const [x, y] = point(start(level), centre - across / 2);
    places.set(id, { x, y });
  }
  const routes = chains.map(({ from, to, input, chain }) => ({
    from,
    to,
    input,
    points: chain.flatMap(({ id }, index) => {
      const { level, centre } = centres.get(id);
      const [before, after] = [point(start(level), centre), point(start(level) + along, centre)];
      return index === 0 ? [after] : index === chain.length - 1 ? [before] : [before, after];
    }),
  }));
  const total = rows.length * (along + levelGap) - levelGap;
  const [width, height] = point(total, longest);
  return { places, routes, width, height };
}

/** Return the length of the longest way from a source to each node. */
function byLevel(nodes) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const levels = new Map();
  const level = (node) => {
    if (!levels.has(node.id)) {
      levels.set(node.id, 0);
      const before = (node.inputs ?? []).filter(({ id }) => known.has(id)).map(({ id }) => level(known.get(id)));
      levels.set(node.id, before.length ? 1 + Math.max(...before) : 0);
    }
    return levels.get(node.id);
  };
  nodes.forEach(level);
  return levels;
}

/** Sort each level by the mean place of the neighbours, forwards and backwards. */
function order(rows, chains) {
  const [before, after] = [new Map(), new Map()];
  for (const { chain } of chains) {
    for (let index = 1; index < chain.length; index++) {
      push(before, chain[index].id, chain[index - 1].id);
      push(after, chain[index - 1].id, chain[index].id);
    }
  }
  for (let turn = 0; turn < 4; turn++) {
    const forwards = turn % 2 === 0;
    const neighbours = forwards ? before : after;
    for (const row of forwards ? rows : [...rows].reverse()) {
      const places = new Map(rows.flatMap((each) => each.map(({ id }, index) => [id, (index + 0.5) / each.length])));
      const mean = ({ id }) => {
        const near = neighbours.get(id) ?? [];
        return near.length ? near.reduce((sum, each) => sum + places.get(each), 0) / near.length : places.get(id);
      };
      const wanted = new Map(row.map((item) => [item.id, mean(item)]));
      row.sort((a, b) => wanted.get(a.id) - wanted.get(b.id));
    }
  }
}

function push(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}
