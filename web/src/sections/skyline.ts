// Every head as a bar, the most important first: the shape of the ranking.
import {figure, room, roving, s} from '../dom';
import {interval, signed} from '../format';
import type {Head} from '../report';
import {firstRole} from '../roles';
import {linear, max, stepOf, ticks} from '../scale';
import type {Selection} from '../state';
import {markOf} from './link';

export interface Ranked {
  head: Head;
  value: number;
  low: number;
  high: number;
}

const left = 52;
const top = 26;
const bottom = 190;

type Scale = (value: number) => number;

function axis(range: [number, number], y: Scale, width: number, by: string):
    SVGElement[] {
  return [
    s('text', {x: 0, y: 10, class: 'tick'}, `↑ ${by}`),
    ...ticks(...range, 4).flatMap(({value, text}) => [
      s('line', {x1: left - 4, x2: width, y1: y(value), y2: y(value),
                 class: value === 0 ? 'axis' : 'rule'}),
      s('text', {x: left - 10, y: y(value) + 4, class: 'tick',
                 'text-anchor': 'end'}, text)]),
  ];
}

function bar(one: Ranked, rank: number, x: number, step: number,
             y: Scale, named: boolean,
             selection: Selection): SVGGElement {
  const wide = Math.max(1, Math.min(step * 0.72, 34));
  const middle = x + step / 2;
  const said = `Head ${one.head.id}, rank ${rank}: ${
    interval(one.value, one.low, one.high, signed)}, ${
    firstRole(one.head)?.name ?? 'no role'}`;
  // Names that do not fit lying stand, read from below.
  const standing = step < 2 + 6.1 * one.head.id.length;
  return s('g', {
    ...markOf(one.head.id, selection),
    class: one.value < 0 ? 'bar hurts' : 'bar', 'aria-label': said,
  },
  s('title', {}, said),
  s('rect', {class: 'hit', x, width: step, y: top - 8,
             height: bottom - top + 46}),
  s('rect', {x: middle - wide / 2, width: wide,
             y: Math.min(y(0), y(one.value)),
             height: Math.max(0.75, Math.abs(y(one.value) - y(0))), rx: 1}),
  s('line', {x1: middle, x2: middle, y1: y(one.low), y2: y(one.high),
             class: 'whisker'}),
  s('text', {
    class: named ? 'tick' : 'tick covered',
    'text-anchor': standing ? 'end' : 'middle',
    transform: `translate(${(middle + (standing ? 4 : 0)).toFixed(1)},${
      bottom + (standing ? 8 : 16)})` + (standing ? ' rotate(-90)' : ''),
  }, one.head.id));
}

export function skyline(ranked: Ranked[], by: string, selection: Selection):
    SVGSVGElement {
  // Bars wide enough to name and to press; past a hundred they share.
  const width = Math.max(room(1080), left + 4 + 13 *
    Math.min(ranked.length, 100));
  const step = (width - left - 4) / ranked.length;
  const every = Math.ceil(11.5 / step);
  const low = -(max(ranked, (one) => -one.low) ?? 0);
  const high = max(ranked, (one) => one.high) || 1;
  const unit = stepOf(high - Math.min(0, low), 10);
  const range: [number, number] = [Math.floor(Math.min(0, low) / unit) * unit,
    Math.ceil(high / unit) * unit];
  const y = linear(range, [bottom, top]);
  const longest = max(ranked, (one) => one.head.id.length) ?? 3;
  const height = bottom + 34 + 6.2 * longest;
  const bars = ranked.map((one, i) => bar(one, i + 1, left + i * step, step, y,
    i % every === 0, selection));
  roving(bars, 0);
  selection.follow((head) => bars.forEach((mark, i) =>
    mark.classList.toggle('chosen', ranked[i]?.head === head)));
  const svg = figure('', width, height, ...axis(range, y, width, by), ...bars,
    s('text', {x: left, y: height - 4, class: 'tick'},
      'heads, the most important first →'));
  svg.setAttribute('role', 'group');
  svg.setAttribute('aria-label', `${ranked.length} heads from the most to the ` +
    `least important by ${by}, with 95 % intervals. Arrows move, Enter shows ` +
    'the head, Enter again opens its card.');
  return svg;
}
