// Which heads matter: the ranking, layers, classes, and how far the criteria
// agree.
import {max, min} from 'd3-array';
import {scaleLinear} from 'd3-scale';

import {figure, h, s, table} from '../dom';
import {interval, number, percent, share, signed} from '../format';
import type {Head, Importance, Report} from '../report';
import {whyAbsent} from '../report';
import {firstRole} from '../roles';
import type {Selection} from '../state';
import {headLink} from './link';

interface Ranked {
  head: Head;
  value: number;
  low: number;
  high: number;
}

function ranking(report: Report, by: string): Ranked[] {
  return report.heads.flatMap((head) => {
    const value = head.importance?.values[by];
    return value === undefined ? [] : [{
      head, value: value.value, low: value.low ?? value.value,
      high: value.high ?? value.value,
    }];
  }).sort((a, b) => b.value - a.value);
}

// Every head as a thin bar, most important first: the shape of the ranking.
function skyline(ranked: Ranked[], by: string): SVGSVGElement {
  const width = 1080;
  const height = 190;
  const y = scaleLinear().domain([
    Math.min(0, min(ranked, (one) => one.low) ?? 0),
    max(ranked, (one) => one.high) || 1]).nice().range([height - 22, 8]);
  const step = (width - 56) / ranked.length;
  const x = (i: number): number => 52 + i * step;
  const marks: SVGElement[] = [];
  for (const tick of y.ticks(4)) {
    marks.push(s('line', {x1: 48, x2: width, y1: y(tick), y2: y(tick),
                          class: tick === 0 ? 'axis' : 'rule'}),
      s('text', {x: 42, y: y(tick) + 4, class: 'tick', 'text-anchor': 'end'},
        number(tick, tick !== 0 && Math.abs(tick) < 0.1 ? 3 : 2)));
  }
  ranked.forEach((one, i) => {
    const bar = Math.max(1, Math.min(step * 0.72, 34));
    const left = x(i) + (step - bar) / 2;
    marks.push(s('g', {class: one.value < 0 ? 'bar hurts' : 'bar'},
      s('title', {}, `${one.head.id}: ${
        interval(one.value, one.low, one.high, signed)}`),
      s('rect', {x: left, width: bar, y: Math.min(y(0), y(one.value)),
                 height: Math.max(0.75, Math.abs(y(one.value) - y(0))),
                 rx: 1}),
      s('line', {x1: left + bar / 2, x2: left + bar / 2, y1: y(one.low),
                 y2: y(one.high), class: 'whisker'}),
      step > 26 && s('text', {x: left + bar / 2, y: height - 4, class: 'tick',
                              'text-anchor': 'middle'}, one.head.id)));
  });
  return figure(`Heads from the most to the least important by ${by}, with ` +
    '95 % intervals', width, height, ...marks);
}

function layerBars(importance: Importance): HTMLElement | null {
  const layers = importance.layers ?? [];
  if (layers.length === 0) return null;
  const most = max(layers, (one) => Math.abs(one.value)) || 1;
  return h('div', {class: 'figure'},
    h('h3', {}, 'Layer by layer'),
    h('p', {class: 'soft small'}, 'The loss added when all heads of a layer ' +
      'are silenced together.'),
    h('ol', {class: 'bars layers'}, ...layers.map((one) => h('li', {},
      h('span', {class: 'token'},
        `${one.kind && one.kind !== 'self' ? one.kind + ' ' : ''}${
          one.layer}`),
      h('span', {class: 'track', 'aria-hidden': 'true'}, h('span', {
        class: one.value < 0 ? 'fill hurts' : 'fill',
        style: `width:${100 * Math.abs(one.value) / most}%`})),
      h('span', {class: 'amount'}, signed(one.value))))));
}

function agreement(importance: Importance): HTMLElement | null {
  const rows = importance.correlations;
  if (rows === undefined || importance.criteria.length < 2) return null;
  const names = importance.criteria.map((one) => one.name);
  return h('div', {class: 'figure'},
    h('h3', {}, 'Do the criteria agree?'),
    table('Rank correlation of the criteria over all heads', ['', ...names],
      rows.map((row, i) => [names[i] ?? '', ...row.map((value) => share(value))]),
      {class: 'matrix'}));
}

function classes(importance: Importance): HTMLElement | null {
  const entries = Object.entries(importance.classes ?? {})
    .filter(([, n]) => n > 0);
  if (entries.length === 0) return null;
  return h('dl', {class: 'shape classes'}, ...entries.map(([name, count]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, String(count)))));
}

export function importanceSection(report: Report, selection: Selection):
    HTMLElement {
  const importance = report.importance;
  const section = h('section', {id: 'importance'},
    h('h2', {}, 'Which heads matter'));
  if (importance === undefined) {
    section.append(h('p', {class: 'absent'}, whyAbsent(report, 'importance')));
    return section;
  }
  const ranked = ranking(report, importance.by);
  const chosen = importance.criteria.find((c) => c.name === importance.by);
  section.append(
    h('p', {}, `Ranked by ${importance.by}${
      chosen === undefined ? '' : `: ${chosen.what}`}. Loss: ${
      importance.loss}${importance.base === undefined ? ''
      : `, ${number(importance.base, 3)} with all heads`}.` +
      (chosen?.gini === undefined ? ''
        : ` Inequality (Gini) ${share(chosen.gini)}.`)));
  if (ranked.length > 0) {
    section.append(h('div', {class: 'figure wide', tabindex: 0, role: 'group',
                             'aria-label': 'The ranking as bars'},
      skyline(ranked, importance.by)));
  }
  const rows = ranked.map((one, i) => [
    headLink(one.head.id, selection), String(i + 1),
    interval(one.value, one.low, one.high, signed),
    one.head.importance?.class ?? '',
    firstRole(one.head)?.name ?? 'no role']);
  const shown = 12;
  const columns = ['Head', 'Rank', importance.by, 'Class', 'First role'];
  section.append(classes(importance) ?? '',
    h('div', {class: 'columns'},
      h('div', {}, h('h3', {}, rows.length > shown ? 'The most important'
        : 'All heads'),
        table('Heads by importance', columns, rows.slice(0, shown)),
        rows.length > shown && h('details', {class: 'behind'},
          h('summary', {}, `The other ${rows.length - shown}`),
          table('The other heads', columns, rows.slice(shown)))),
      h('div', {}, layerBars(importance), agreement(importance))));
  if (importance.carry) {
    section.append(h('p', {class: 'soft small'},
      `${importance.carry.heads} heads carry ${
        percent(importance.carry.share)} of what heads with a positive effect ` +
      'add up to.'));
  }
  for (const note of importance.notes ?? []) {
    section.append(h('p', {class: 'soft small'}, `Not told: ${note}.`));
  }
  return section;
}
