// Where in the model each role lives: early, middle and late layers.
import {behind, h, table} from '../dom';
import {plural} from '../format';
import type {Report, Third} from '../report';
import {whyAbsent} from '../report';
import {kindOf} from '../roles';

function layersOf(third: Third): string {
  const first = third.layers[0];
  const last = third.layers[third.layers.length - 1];
  return first === last ? `layer ${first}` : `layers ${first}–${last}`;
}

function bar(third: Third, widest: number): HTMLElement {
  const parts = Object.entries(third.counts).filter(([, n]) => n > 0);
  return h('div', {class: 'third'},
    h('p', {class: 'third-name'}, h('strong', {}, third.name), ' ',
      h('span', {class: 'soft'},
        `${layersOf(third)}, ${plural(third.heads, 'head')}`)),
    h('div', {class: 'stack', 'aria-hidden': 'true'}, ...parts.map(
      ([name, count]) => h('span', {
        class: 'part', 'data-family': kindOf(name).family,
        style: `flex:${count} 1 0`, title: `${name}: ${count}`,
      }, h('span', {class: 'part-name'}, name === 'no role' ? 'none'
        : kindOf(name).word), h('span', {class: 'part-count'}, String(count)))),
      h('span', {class: 'rest', style: `flex:${
        Math.max(0, widest - third.heads)} 1 0`})));
}

export function thirdsSection(report: Report): HTMLElement {
  const thirds = report.roles?.thirds ?? [];
  const section = h('section', {id: 'layers'},
    h('h2', {}, 'Roles by layer third'));
  if (thirds.length === 0) {
    section.append(h('p', {class: 'absent'}, whyAbsent(report, 'roles')));
    return section;
  }
  const widest = Math.max(...thirds.map((third) => third.heads));
  const names = [...new Set(thirds.flatMap(
    (third) => Object.keys(third.counts)))];
  section.append(
    h('p', {}, 'Each head counts once, by its first role.'),
    h('div', {class: 'thirds'}, ...thirds.map((one) => bar(one, widest))),
    behind(table('Heads by first role and layer third',
      ['Role', ...thirds.map((one) => `${one.name} (${layersOf(one)})`)],
      names.map((name) => [name, ...thirds.map(
        (third) => String(third.counts[name] ?? 0))]))));
  return section;
}
