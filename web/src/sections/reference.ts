// The end of the page: every head as a table, how each number was computed,
// what is absent, and what made the page.
import {h} from '../dom';
import {interval, signed} from '../format';
import type {Report} from '../report';
import {rolesOf} from '../roles';
import {sortableTable, type Cell, type Column} from '../sortable';
import {headLink} from './link';

export function tableSection(report: Report): HTMLElement {
  const by = report.importance?.by;
  const kinds = new Set(report.heads.map((head) => head.kind)).size;
  const columns: Column[] = [
    {name: 'Head', first: 'ascending'},
    ...(kinds > 1 ? [{name: 'Kind', first: 'ascending'} as const] : []),
    {name: 'Roles', first: 'ascending'},
    {name: 'First score', first: 'descending'},
    ...(by === undefined ? [] : [
      {name: by, first: 'descending'} as const,
      {name: 'Class', first: 'ascending'} as const])];
  const rows = report.heads.map((head, i): Cell[] => {
    const roles = rolesOf(head);
    const first = roles[0];
    const names = roles.map((role) => role.name).join(', ');
    const effect = by === undefined ? undefined
      : head.importance?.values[by];
    return [{shown: headLink(head.id), key: i},
      ...(kinds > 1 ? [{shown: head.kind, key: head.kind}] : []),
      {shown: names || 'no role', key: names || undefined},
      {shown: first === undefined ? ''
        : interval(first.score, first.low, first.high), key: first?.score},
      ...(by === undefined ? [] : [
        {shown: effect === undefined ? ''
          : interval(effect.value, effect.low, effect.high, signed),
         key: effect?.value},
        {shown: head.importance?.class ?? '', key: head.importance?.class}])];
  });
  return h('section', {id: 'table'}, h('h2', {}, 'Every head in one table'),
    h('details', {class: 'behind printed', open: rows.length <= 24},
      h('summary', {}, `${rows.length} heads`),
      sortableTable('Every head; a press on a heading puts them in its order',
        columns, rows)));
}

export function definitionsSection(report: Report): HTMLElement {
  const definitions = report.definitions ?? [];
  const absent = report.absent ?? [];
  return h('section', {id: 'definitions'},
    h('h2', {}, 'How each number was computed'),
    h('p', {}, 'Intervals are 95 %, over sequences: tokens of one sequence ' +
      'are not independent. A is a head’s attention, i the token that ' +
      'looks, j the one looked at. Heads are written layer.head, both from 0.'),
    definitions.length > 0 && h('dl', {class: 'definitions'},
      ...definitions.map((one) => h('div', {},
        h('dt', {}, one.name),
        h('dd', {}, one.sentence, one.trap !== undefined && one.trap !== '' &&
          h('span', {class: 'trap'}, h('strong', {}, 'Beware: '),
            one.trap))))),
    absent.length > 0 && h('div', {},
      h('h3', {}, 'Not in this report'),
      h('dl', {class: 'definitions'}, ...absent.map((one) => h('div', {},
        h('dt', {}, one.part), h('dd', {}, one.why))))));
}

export function footer(report: Report): HTMLElement {
  return h('footer', {},
    h('p', {}, `Made by ${report.program ?? 'headwise'}. The data of this ` +
      'page is inside it as JSON, in the form of docs/report.schema.json.' +
      (report.model.hash ? ` Model hash ${report.model.hash}.` : '')));
}
