// Which heads duplicate which: a map in two dimensions, clusters, pairs.
import {behind, choice, figure, h, room, roving, s, table} from '../dom';
import {share} from '../format';
import type {Report, Similarity} from '../report';
import {whyAbsent} from '../report';
import {firstRole, kindOf} from '../roles';
import {stepOf} from '../scale';
import type {Selection} from '../state';
import {headLink, markOf} from './link';

// Of clusters, of one area: square, triangle, diamond, cross, star, three arms.
// A head that is in none is a circle.
const circle = 'M5.9,0A5.9,5.9,0,1,1,-5.9,0A5.9,5.9,0,1,1,5.9,0';
const shapes = [
  'M-5.2,-5.2h10.5v10.5h-10.5Z',
  'M0,-9.2L8,4.6L-8,4.6Z',
  'M0,-9.8L5.6,0L0,9.8L-5.6,0Z',
  'M-7,-2.3h4.7v-4.7h4.6v4.7h4.7v4.6h-4.7v4.7h-4.6v-4.7h-4.7Z',
  'M0,-9.9L2.2,-3.1L9.4,-3.1L3.6,1.2L5.8,8L0,3.8L-5.8,8L-3.6,1.2L-9.4,-3.1' +
    'L-2.2,-3.1Z',
  'M2.8,1.6L2.8,7.3L-2.8,7.3L-2.8,1.6L-7.7,-1.2L-4.9,-6.1L0,-3.3L4.9,-6.1' +
    'L7.7,-1.2Z',
];

interface Place {
  x: number;
  y: number;
  end: boolean;  // the name ends at x
}

// Beside, above or below each point, where its name covers neither points nor
// other names; undefined where there is no such place.
function placeNames(points: [number, number][], names: string[],
                    width: number): (Place | undefined)[] {
  const wide = 6.5, high = 9, radius = 6;
  const taken = points.map(([px, py]) =>
    [px - radius, py - radius, px + radius, py + radius]);
  const places: Place[] = [
    {x: 9, y: 4, end: false}, {x: -9, y: 4, end: true},
    {x: 6, y: -6, end: false}, {x: 6, y: 15, end: false},
    {x: -6, y: -6, end: true}, {x: -6, y: 15, end: true}];
  return points.map(([px, py], i) => {
    const length = wide * (names[i]?.length ?? 0);
    return places.find((place) => {
      const left = px + place.x - (place.end ? length : 0);
      const box = [left, py + place.y - high, left + length, py + place.y + 1];
      const free = left > 0 && left + length < width &&
        !taken.some(([l = 0, t = 0, r = 0, b = 0]) => left < r &&
          l < left + length && (box[1] ?? 0) < b && t < (box[3] ?? 0));
      if (free) taken.push(box);
      return free;
    });
  });
}

// The directions, which have no names, and a length to read distances by.
function frame(width: number, height: number, scale: number,
               unit = 'distance'): SVGElement[] {
  const length = stepOf(0.3 * width / scale, 2);
  const y = height - 12;
  return [
    s('rect', {x: 0.5, y: 0.5, width: width - 1, height: height - 29, rx: 6,
               class: 'plane'}),
    s('path', {d: `M1 ${y - 9}v6h${(scale * length).toFixed(1)}v-6`,
               class: 'measure'}),
    s('text', {x: scale * length + 9, y: y - 1, class: 'tick'},
      `${Number(length.toPrecision(3))} ${unit.split(',')[0]}`),
  ];
}

function scatter(similarity: Similarity, report: Report,
                 selection: Selection): SVGSVGElement {
  const points = similarity.map ?? [];
  const width = room(620);
  const height = Math.min(440, width);
  const spread = (values: number[]): [number, number] => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low === high ? [low - 1, high + 1] : [low, high];
  };
  // One scale for both directions: what is near on paper is near.
  const [left, right] = spread(points.map((p) => p.x));
  const [low, high] = spread(points.map((p) => p.y));
  const scale = Math.min((width - 74) / (right - left),
    (height - 80) / (high - low));
  const x = (value: number): number =>
    width / 2 + scale * (value - (left + right) / 2);
  const y = (value: number): number =>
    height / 2 - 14 - scale * (value - (low + high) / 2);
  const groups = similarity.clusters ?? [];
  const large = new Map(groups.map((_, i) => i)
    .filter((i) => (groups[i]?.length ?? 0) > 1).map((i, k) => [i, k]));
  const places = placeNames(points.map((p) => [x(p.x), y(p.y)]),
    points.map((p) => p.head), width);
  const marks = points.map((point, i) => {
    const head = selection.head(point.head);
    const cluster = large.get(point.cluster);
    const shape = cluster === undefined ? circle
      : shapes[cluster % shapes.length];
    const role = head === undefined ? undefined : firstRole(head);
    return s('g', {
      ...markOf(point.head, selection), class: 'point',
      'data-family': kindOf(role?.name).family,
      transform: `translate(${x(point.x).toFixed(1)},${
        y(point.y).toFixed(1)})`,
      'aria-label': `Head ${point.head}, ${role?.name ?? 'no role'}, ` +
        `cluster ${point.cluster + 1}`,
    }, s('path', {d: shape}),
    s('text', {
      x: places[i]?.x ?? 9, y: places[i]?.y ?? 4,
      'text-anchor': places[i]?.end ? 'end' : undefined,
      class: places[i] === undefined ? 'tick covered' : 'tick',
    }, point.head));
  });
  roving(marks, 0);
  selection.follow((head) => marks.forEach((mark, i) =>
    mark.classList.toggle('chosen', points[i]?.head === head.id)));
  const svg = figure('', width, height,
    ...frame(width, height, scale, similarity.map_of), ...marks);
  svg.setAttribute('role', 'group');
  svg.setAttribute('aria-label', `Map of ${report.heads.length} heads: near ` +
    'ones look alike. Arrows move, Enter shows the head, Enter again opens ' +
    'its card.');
  return svg;
}

function pairs(similarity: Similarity): HTMLElement {
  const box = h('div');
  const show = (name: string): void => {
    const measure = similarity.measures.find((one) => one.name === name);
    if (measure === undefined) return;
    box.replaceChildren(h('p', {class: 'soft small'}, measure.what),
      table(`Closest pairs by ${measure.name}`, ['Head', 'Head', 'Value'],
        measure.pairs.map((pair) => [headLink(pair.a),
          headLink(pair.b), share(pair.value)])));
  };
  const first = similarity.measures[0]?.name ?? '';
  show(first);
  return h('div', {class: 'figure'}, h('h3', {}, 'Closest pairs'),
    similarity.measures.length > 1 && choice('measure', 'Alike in',
      similarity.measures.map((one) => ({value: one.name, label: one.name})),
      first, show), box);
}

export function similaritySection(report: Report, selection: Selection):
    HTMLElement {
  const similarity = report.similarity;
  const section = h('section', {id: 'similarity'},
    h('h2', {}, 'Which heads are alike'));
  if (similarity === undefined) {
    section.append(h('p', {class: 'absent'}, whyAbsent(report, 'similarity')));
    return section;
  }
  const points = similarity.map ?? [];
  const clusters = (similarity.clusters ?? []).filter((one) => one.length > 1);
  section.append(
    h('p', {}, 'Near heads look at the same places' +
      (similarity.map_of ? ` (${similarity.map_of})` : '') +
      '. Colour is the first role; the shape is the cluster, a circle for ' +
      'heads in none.'),
    h('div', {class: 'columns'},
      h('div', {}, points.length > 0
        ? h('div', {class: 'figure'}, scatter(similarity, report, selection))
        : h('p', {class: 'absent'}, 'No map in this report.'),
      points.length > 0 && behind(table('Places on the map',
        ['Head', 'x', 'y', 'Cluster'], points.map((point) => [
          headLink(point.head), share(point.x), share(point.y),
          String(point.cluster + 1)])))),
      h('div', {}, pairs(similarity),
        clusters.length > 0 && h('div', {class: 'figure'},
          h('h3', {}, 'Clusters'),
          h('ul', {class: 'clusters'}, ...clusters.map((ids) => h('li', {},
            ...ids.map((id) => headLink(id)))))))));
  return section;
}
