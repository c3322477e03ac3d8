// Which heads feed which: the layered graph, strongest connections first.
import {behind, choice, figure, h, room, roving, s, table} from '../dom';
import {integer, number, signed} from '../format';
import type {Edge, Head, Report} from '../report';
import {whyAbsent} from '../report';
import {firstRole, kindOf} from '../roles';
import {max} from '../scale';
import type {Selection} from '../state';
import {headLink, markOf} from './link';

const kindNames: Record<string, string> = {
  q: 'into what the receiver asks (Q)',
  k: 'into what it matches (K)',
  v: 'into what it carries (V)',
};

function excess(edge: Edge): number {
  return edge.score - (edge.baseline ?? 0);
}

// Layers from the bottom (first) to the top (last), as the data flows.
function graph(heads: Head[], edges: Edge[], selection: Selection):
    SVGSVGElement {
  const layers = [...new Set(heads.map((head) => head.layer))]
    .sort((a, b) => a - b);
  const columns = 1 + Math.max(...heads.map((head) => head.head));
  // Wider than the window only where its heads would touch.
  const left = 48;
  const width = Math.max(room(1080), left + 8 + 37 * columns);
  const gap = Math.max(58, Math.min(96, 620 / layers.length));
  const height = gap * layers.length + 20;
  const radius = Math.min(15, (width - left - 8) / columns / 2.4);
  const x = (head: Head): number =>
    left + (width - left - 8) * (head.head + 0.5) / columns;
  const y = (head: Head): number =>
    height - 10 - gap * (layers.indexOf(head.layer) + 0.5);
  const byId = new Map(heads.map((head) => [head.id, head]));
  const most = max(edges, excess) || 1;
  const line = (from: Head, to: Head): string => {
    const [begin, end] = [y(from) - radius, y(to) + radius];
    const middle = (begin + end) / 2;
    return `M${x(from)},${begin}C${x(from)},${middle},${x(to)},${middle},${
      x(to)},${end}`;
  };
  const paths = edges.flatMap((edge) => {
    const from = byId.get(edge.from);
    const to = byId.get(edge.to);
    if (from === undefined || to === undefined) return [];
    return [{edge, path: s('path', {
      d: line(from, to),
      class: `edge ${edge.kind}`,
      'stroke-width': (0.8 + 3.2 * excess(edge) / most).toFixed(2),
      'stroke-opacity': (0.25 + 0.6 * excess(edge) / most).toFixed(2),
    }, s('title', {}, `${edge.from} → ${edge.to} ${edge.kind.toUpperCase()} ${
      signed(excess(edge))}`))}];
  });
  const busy = new Set(edges.flatMap((edge) => [edge.from, edge.to]));
  const nodes = heads.map((head) => s('g', {
    ...markOf(head.id, selection),
    class: busy.has(head.id) ? 'node' : 'node idle', 'data-family': kindOf(firstRole(head)?.name).family,
    transform: `translate(${x(head).toFixed(1)},${y(head).toFixed(1)})`,
    'aria-label': `Head ${head.id}, ${firstRole(head)?.name ?? 'no role'}, ` +
      `${paths.filter((p) => p.edge.to === head.id).length} in, ` +
      `${paths.filter((p) => p.edge.from === head.id).length} out`,
    focus: () => emphasise(head.id),
    blur: () => emphasise(undefined),
    mouseenter: () => emphasise(head.id),
    mouseleave: () => emphasise(undefined),
  }, s('circle', {r: radius}), radius >= 9 && s('text', {
    class: 'tick', 'text-anchor': 'middle', y: 3.5}, head.id)));
  const emphasise = (id: string | undefined): void => {
    for (const {edge, path} of paths) {
      const mine = edge.from === id || edge.to === id;
      path.classList.toggle('chosen', id !== undefined && mine);
      path.classList.toggle('dim', id !== undefined && !mine);
    }
  };
  roving(nodes, 0, (at, key) => {
    if (key === 'ArrowLeft') return at - 1;
    if (key === 'ArrowRight') return at + 1;
    const here = heads[at]!;
    const layer = here.layer + (key === 'ArrowUp' ? 1 : -1);
    const row = heads.map((head, i) => ({head, i}))
      .filter(({head}) => head.layer === layer);
    return row[Math.min(here.head, row.length - 1)]?.i ?? at;
  });
  const labels = layers.map((layer, i) => s('text', {
    class: 'tick', x: 0, y: height - 10 - gap * (i + 0.5) + 4},
  `Layer ${layer}`));
  const svg = figure('', width, height, ...labels,
    ...paths.map((one) => one.path), ...nodes);
  svg.setAttribute('role', 'group');
  svg.setAttribute('aria-label', 'Heads by layer, the first at the bottom, ' +
    'with their strongest connections. Arrows move, Enter shows the head, ' +
    'Enter again opens its card.');
  return svg;
}

function markChosen(graphBox: HTMLElement, head: Head): void {
  graphBox.querySelectorAll<SVGElement>('.node').forEach((node) =>
    node.classList.toggle('chosen', node.dataset.head === head.id));
}

function legend(): HTMLElement {
  return h('ul', {class: 'edge-legend'}, ...Object.entries(kindNames).map(
    ([kind, name]) => h('li', {}, s('svg', {width: 40, height: 10,
      'aria-hidden': 'true'}, s('line', {x1: 0, x2: 40, y1: 5, y2: 5,
      class: `edge ${kind}`, 'stroke-width': 2.5})), ` ${name}`)));
}

export function compositionSection(report: Report, selection: Selection):
    HTMLElement {
  const composition = report.composition;
  const section = h('section', {id: 'composition'},
    h('h2', {}, 'Which heads feed which'));
  if (composition === undefined) {
    section.append(h('p', {class: 'absent'},
      whyAbsent(report, 'composition')));
    return section;
  }
  const heads = report.heads.filter((head) => head.kind !== 'cross');
  const ids = new Set(heads.map((head) => head.id));
  const all = composition.edges
    .filter((edge) => excess(edge) > 0 && ids.has(edge.from) &&
      ids.has(edge.to))
    .sort((a, b) => excess(b) - excess(a));
  const wanted = {kind: 'all', count: Math.min(40, all.length)};
  const box = h('div', {class: 'figure wide', tabindex: 0, role: 'group',
                        'aria-label': 'The graph'});
  const numbers = h('div');
  const hasEffect = all.some((edge) => edge.effect !== undefined);
  const show = (): void => {
    const edges = all.filter((edge) => wanted.kind === 'all' ||
      edge.kind === wanted.kind).slice(0, wanted.count);
    box.replaceChildren(graph(heads, edges, selection));
    markChosen(box, selection.current);
    numbers.replaceChildren(table(`The ${integer(edges.length)} strongest ` +
      'connections', ['From', 'To', 'Through', 'Over baseline',
      ...(hasEffect ? ['Path effect'] : [])], edges.map((edge) => [
      headLink(edge.from), headLink(edge.to),
      edge.kind.toUpperCase(), signed(excess(edge)),
      ...(hasEffect ? [edge.effect === undefined ? ''
        : number(edge.effect, 3)] : [])])));
  };
  const slider = h('label', {class: 'slider'}, 'Connections shown ',
    h('input', {type: 'range', min: 1, max: Math.max(1, all.length),
                value: wanted.count, input: (event: Event) => {
                  wanted.count = Number((event.target as HTMLInputElement)
                    .value);
                  show();
                }}));
  show();
  selection.follow((head) => markChosen(box, head));
  section.append(
    h('p', {}, 'A line is what an earlier head writes and a later head ' +
      'reads, over what random matrices would show; press a head to see ' +
      'what it does.' +
      (composition.note ? ` ${composition.note}` : '')),
    all.length === 0 ? h('p', {class: 'absent'},
      'No connection is above its baseline.')
      : h('div', {class: 'controls'}, choice('through', 'Through', [
        {value: 'all', label: 'All'}, {value: 'q', label: 'Q'},
        {value: 'k', label: 'K'}, {value: 'v', label: 'V'},
      ], 'all', (value) => {
        wanted.kind = value;
        show();
      }), slider),
    legend(), box, behind(numbers));
  return section;
}
