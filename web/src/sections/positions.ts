// 1. Which positions does a head read? Distances, favourite tokens, shape.
import {behind, figure, h, room, s, table} from '../dom';
import {alone, number, percent, plural, share} from '../format';
import type {Bucket, Head, Report, Share} from '../report';
import {linear, max} from '../scale';

export function bucketName(bucket: Bucket): string {
  const {from, to} = bucket;
  if (from === 0 && to === 0) return '0';
  const sign = (n: number): string => n < 0 ? `−${-n}` : `+${n}`;
  return from === to ? sign(from)
    : from < 0 ? `${sign(from)}…${sign(to).slice(1)}`
    : `${sign(from)}…${to}`;
}

// "−1" says more to a reader as "the token before".
function whereMost(buckets: Bucket[]): string {
  const best = [...buckets].sort((a, b) => b.mass - a.mass)[0];
  if (best === undefined || best.mass <= 0) return '';
  const name = best.from === -1 && best.to === -1 ? 'the token before'
    : best.from === 1 && best.to === 1 ? 'the token after'
    : best.from === 0 && best.to === 0 ? 'the token itself'
    : best.to < 0 ? `${-best.to} to ${-best.from} tokens back`
    : `${best.from} to ${best.to} tokens ahead`;
  return `${percent(best.mass)} of its attention goes to ${name}.`;
}

function histogram(buckets: Bucket[]): HTMLElement {
  const used = buckets.filter((bucket, i) => bucket.mass > 0 ||
    buckets.slice(i).some((b) => b.mass > 0) &&
    buckets.slice(0, i).some((b) => b.mass > 0));
  const shown = used.length > 0 ? used : buckets;
  const width = room(520);
  const height = 132;
  const gap = 0.18;
  const step = width / Math.max(1, shown.length - gap);
  const wide = step * (1 - gap);
  const y = linear([0, max(shown, (b) => b.mass) || 1], [0, height - 44]);
  // Names that would touch stand on two lines in turn.
  const longest = max(shown, (b) => bucketName(b).length) ?? 0;
  const turn = step < 7.4 * longest;
  const bars = shown.map((bucket, i) => {
    const size = y(bucket.mass);
    const left = i * step;
    const middle = left + wide / 2;
    return s('g', {class: bucket.from === 0 ? 'bar here' : 'bar'},
      s('rect', {x: left, y: height - 26 - size, width: wide,
                 height: Math.max(size, 0.75), rx: 2}),
      bucket.mass >= 0.005 && s('text', {
        x: middle, y: height - 31 - size, class: 'value',
        'text-anchor': 'middle'}, share(bucket.mass)),
      s('text', {x: middle, y: height - (turn && i % 2 ? 0 : 11),
                 class: 'tick', 'text-anchor': 'middle'},
        bucketName(bucket)));
  });
  return h('div', {class: 'figure'},
    h('p', {class: 'figure-title'}, 'Distance to what it reads, in tokens ' +
      '(negative: earlier)'),
    figure('Share of attention by distance. ' + whereMost(buckets), width,
      height, ...bars),
    behind(table('Share of attention by distance', ['Distance', 'Share'],
      shown.map((bucket) => [bucketName(bucket), share(bucket.mass)]))));
}

export function barList(caption: string, items: Share[]): HTMLElement {
  const most = max(items, (item) => item.share) || 1;
  return h('div', {class: 'figure'}, h('p', {class: 'figure-title'}, caption),
    h('ol', {class: 'bars'}, ...items.map((item) => h('li', {},
      h('bdi', {class: 'token'}, alone(item.token)),
      h('span', {class: 'track', 'aria-hidden': 'true'}, h('span', {
        class: 'fill', style: `width:${100 * item.share / most}%`})),
      h('span', {class: 'amount'}, share(item.share))))));
}

const shapes: [string, string][] = [
  ['entropy.normalised', 'evenness (1: all visible tokens alike)'],
  ['confidence', 'largest weight, on average'],
  ['distance', 'mean distance in tokens'],
  ['first', 'on the first token'],
  ['delimiter', 'on punctuation and special tokens'],
  ['local', 'within 4 tokens'],
];

// Which tokens: of shorter texts than all else on the card, which is said.
function topKeys(items: Share[], report: Report): HTMLElement {
  const on = report.top_keys_on;
  return barList('Tokens it reads most besides the first and special ones, ' +
    'as shares of its attention' + (on === undefined ? '' :
    ` (on the first ${on.tokens} tokens of ${
      plural(on.sequences, 'sequence')}; all else here is of the whole text)`),
  items);
}

export function positionsPart(head: Head, report: Report): HTMLElement {
  const metrics = head.metrics ?? {};
  const rows = shapes.flatMap(([name, label]) => {
    const value = metrics[name];
    return value === undefined || value.mean === null ? [] : [h('div', {},
      h('dt', {}, label),
      h('dd', {}, name === 'distance' ? number(value.mean, 1)
                                      : share(value.mean)))];
  });
  const empty = !head.distance && !head.top_keys && rows.length === 0;
  return h('section', {class: 'question'},
    h('h4', {}, h('span', {class: 'step-number'}, '1'),
      'Which positions does it read?'),
    head.distance && h('p', {}, whereMost(head.distance)),
    head.distance && histogram(head.distance),
    head.top_keys !== undefined && head.top_keys.length > 0 &&
      topKeys(head.top_keys, report),
    rows.length > 0 && h('dl', {class: 'shape'}, ...rows),
    empty && h('p', {class: 'absent'}, 'Not in this report.'));
}
