// Which heads matter: the ranking, layers, classes, and how far the criteria
// agree.
import {h, table} from '../dom';
import {interval, number, percent, share, signed} from '../format';
import type {Importance, Report} from '../report';
import {whyAbsent} from '../report';
import {firstRole} from '../roles';
import {max} from '../scale';
import type {Selection} from '../state';
import {headLink} from './link';
import {skyline, type Ranked} from './skyline';

function ranking(report: Report, by: string): Ranked[] {
  return report.heads.flatMap((head) => {
    const value = head.importance?.values[by];
    return value === undefined ? [] : [{
      head, value: value.value, low: value.low ?? value.value,
      high: value.high ?? value.value,
    }];
  }).sort((a, b) => b.value - a.value);
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
        `${one.kind && one.kind !== 'self' ? one.kind + ' ' : ''}layer ${
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
      skyline(ranked, importance.by, selection)),
    h('p', {class: 'soft small'}, 'A bar is a head: press it to see what it ' +
      'does. Thin lines are 95 % intervals; red bars are below zero.'));
  }
  const rows = ranked.map((one, i) => [
    headLink(one.head.id), String(i + 1),
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
