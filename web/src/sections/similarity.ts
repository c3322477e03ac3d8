// Which heads duplicate which: a map in two dimensions, clusters, pairs.
import {extent} from 'd3-array';
import {scaleLinear} from 'd3-scale';
import {symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare,
        symbolStar, symbolTriangle, symbolWye} from 'd3-shape';

import {behind, choice, figure, h, room, roving, s, table} from '../dom';
import {share} from '../format';
import type {Report, Similarity} from '../report';
import {whyAbsent} from '../report';
import {firstRole, kindOf} from '../roles';
import type {Selection} from '../state';
import {goTo, headLink} from './link';

const shapes = [symbolCircle, symbolSquare, symbolTriangle, symbolDiamond,
                symbolCross, symbolStar, symbolWye];

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

function scatter(similarity: Similarity, report: Report,
                 selection: Selection): SVGSVGElement {
  const points = similarity.map ?? [];
  const width = room(620);
  const height = Math.min(440, width);
  const spread = (values: number[]): [number, number] => {
    const [low = 0, high = 1] = extent(values) as [number, number];
    return low === high ? [low - 1, high + 1] : [low, high];
  };
  const x = scaleLinear().domain(spread(points.map((p) => p.x)))
    .range([26, width - 34]);
  const y = scaleLinear().domain(spread(points.map((p) => p.y)))
    .range([height - 24, 22]);
  const groups = similarity.clusters ?? [];
  const large = new Map(groups.map((_, i) => i)
    .filter((i) => (groups[i]?.length ?? 0) > 1).map((i, k) => [i, k]));
  const places = placeNames(points.map((p) => [x(p.x), y(p.y)]),
    points.map((p) => p.head), width);
  const marks = points.map((point, i) => {
    const head = selection.head(point.head);
    const shape = shapes[(large.get(point.cluster) ?? 0) % shapes.length];
    const role = head === undefined ? undefined : firstRole(head);
    return s('g', {
      class: 'point', role: 'button', tabindex: -1,
      'data-family': kindOf(role?.name).family,
      transform: `translate(${x(point.x).toFixed(1)},${
        y(point.y).toFixed(1)})`,
      'aria-label': `Head ${point.head}, ${role?.name ?? 'no role'}, ` +
        `cluster ${point.cluster + 1}`,
      click: () => goTo(point.head, selection),
      keydown: (event: KeyboardEvent) => {
        if (event.key === 'Enter' || event.key === ' ') {
          event.preventDefault();
          goTo(point.head, selection);
        }
      },
    }, s('path', {d: symbol(shape, 110)() ?? ''}),
    s('text', {
      x: places[i]?.x ?? 9, y: places[i]?.y ?? 4,
      'text-anchor': places[i]?.end ? 'end' : undefined,
      class: places[i] === undefined ? 'tick covered' : 'tick',
    }, point.head));
  });
  roving(marks, 0);
  selection.follow((head) => marks.forEach((mark, i) =>
    mark.classList.toggle('chosen', points[i]?.head === head.id)));
  const svg = figure('', width, height, ...marks);
  svg.setAttribute('role', 'group');
  svg.setAttribute('aria-label', `Map of ${report.heads.length} heads: near ` +
    'ones look alike. Arrows move, Enter shows the head.');
  return svg;
}

function pairs(similarity: Similarity, selection: Selection): HTMLElement {
  const box = h('div');
  const show = (name: string): void => {
    const measure = similarity.measures.find((one) => one.name === name);
    if (measure === undefined) return;
    box.replaceChildren(h('p', {class: 'soft small'}, measure.what),
      table(`Closest pairs by ${measure.name}`, ['Head', 'Head', 'Value'],
        measure.pairs.map((pair) => [headLink(pair.a, selection),
          headLink(pair.b, selection), share(pair.value)])));
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
      '. Colour is the first role; the shape is the cluster.'),
    h('div', {class: 'columns'},
      h('div', {}, points.length > 0
        ? h('div', {class: 'figure'}, scatter(similarity, report, selection))
        : h('p', {class: 'absent'}, 'No map in this report.'),
      points.length > 0 && behind(table('Places on the map',
        ['Head', 'x', 'y', 'Cluster'], points.map((point) => [
          headLink(point.head, selection), share(point.x), share(point.y),
          String(point.cluster + 1)])))),
      h('div', {}, pairs(similarity, selection),
        clusters.length > 0 && h('div', {class: 'figure'},
          h('h3', {}, 'Clusters'),
          h('ul', {class: 'clusters'}, ...clusters.map((ids) => h('li', {},
            ...ids.map((id) => headLink(id, selection)))))))));
  return section;
}
