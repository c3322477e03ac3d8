// 2. By what relation does a head read? Its roles, each with its evidence: the
// score and its interval on one line with chance and the threshold.
import {figure, h, room, s, table} from '../dom';
import {integer, interval, number, share} from '../format';
import type {Head, Role} from '../report';
import {rolesOf} from '../roles';
import {linear} from '../scale';

function scoreLine(role: Role): SVGSVGElement {
  const width = room(520);
  const place = linear([0, 1], [6, width - 6]);
  const x = (value: number): number =>
    place(Math.max(0, Math.min(1, value)));
  const marks: SVGElement[] = [
    s('line', {x1: x(0), x2: x(1), y1: 16, y2: 16, class: 'rule'}),
  ];
  const mark = (value: number | undefined, name: string): void => {
    if (value === undefined) return;
    marks.push(
      s('line', {x1: x(value), x2: x(value), y1: 9, y2: 23, class: 'mark'}),
      s('text', {x: x(value), y: 36, class: 'tick',
                 'text-anchor': value < 0.08 ? 'start'
                   : value > 0.92 ? 'end' : 'middle'},
        `${name} ${share(value)}`));
  };
  mark(role.threshold, 'threshold');
  if (role.threshold === undefined ||
      Math.abs((role.chance ?? 0) - role.threshold) > 0.25) {
    mark(role.chance, 'chance');
  }
  if (role.low !== undefined && role.high !== undefined) {
    marks.push(s('line', {x1: x(role.low), x2: x(role.high), y1: 16, y2: 16,
                          class: 'interval'}));
  }
  marks.push(s('circle', {cx: x(role.score), cy: 16, r: 5.5, class: 'dot'}));
  return figure(`Score ${interval(role.score, role.low, role.high)}` +
    (role.threshold === undefined ? ''
      : `, threshold ${share(role.threshold)}`) +
    (role.chance === undefined ? '' : `, chance ${share(role.chance)}`),
  width, 42, ...marks);
}

function roleBlock(role: Role): HTMLElement {
  const facts = [
    interval(role.score, role.low, role.high),
    role.count !== undefined && `${integer(role.count)} cases`,
    role.sink_excluded && 'when not at the sink' +
      (role.content_mass === undefined ? ''
        : `, c = ${share(role.content_mass)}`),
  ].filter(Boolean).join(' · ');
  return h('div', {class: 'role'},
    h('p', {class: 'role-name'}, h('strong', {}, role.name), ' ',
      h('span', {class: 'soft'}, facts)),
    scoreLine(role),
    role.evidence !== undefined && h('p', {class: 'evidence'}, role.evidence),
    role.check !== undefined && h('p', {class: 'check'},
      h('strong', {}, 'Causal check: '), role.check));
}

// Every metric of the head, for those who want the numbers.
function allMetrics(head: Head): HTMLElement | null {
  const rows = Object.entries(head.metrics ?? {});
  if (rows.length === 0) return null;
  const write = (name: string) => (value: number): string =>
    /^distance|^entropy$/.test(name) ? number(value, 2) : share(value);
  return h('details', {class: 'behind'},
    h('summary', {}, `All ${rows.length} measurements of this head`),
    table(`Measurements of head ${head.id}, 95 % intervals over sequences`,
      ['Measurement', 'Mean', 'Interval', 'Cases'],
      rows.map(([name, value]) => [name,
        value.mean === null ? 'not defined' : write(name)(value.mean),
        value.low === undefined || value.high === undefined ? ''
          : `${write(name)(value.low)} to ${write(name)(value.high)}`,
        value.count == null ? '' : integer(value.count)])));
}

export function relationPart(head: Head): HTMLElement {
  const roles = rolesOf(head);
  return h('section', {class: 'question'},
    h('h4', {}, h('span', {class: 'step-number'}, '2'),
      'By what relation?'),
    ...(roles.length > 0 ? roles.map(roleBlock) : [h('p', {},
      'No role: no relation that was tested passed its threshold. That is ' +
      'an answer, not a gap; the measurements are below.' +
      (head.closest ? ` Closest: ${head.closest}.` : ''))]),
    allMetrics(head));
}
