// What is lost without a head: each criterion with its interval around zero.
import {figure, h, room, s} from '../dom';
import {interval, signed} from '../format';
import type {Effect, Head, Report} from '../report';
import {whyAbsent} from '../report';
import {linear} from '../scale';

function bounds(report: Report, name: string): [number, number] {
  let low = 0;
  let high = 0;
  for (const head of report.heads) {
    const value = head.importance?.values[name];
    if (value === undefined) continue;
    low = Math.min(low, value.low ?? value.value);
    high = Math.max(high, value.high ?? value.value);
  }
  return low === high ? [low - 1, high + 1] : [low, high];
}

function effectLine(value: Effect, range: [number, number]): SVGSVGElement {
  const width = room(520);
  const x = linear(range, [8, width - 8]);
  const marks: SVGElement[] = [
    s('line', {x1: x(range[0]), x2: x(range[1]), y1: 12, y2: 12,
               class: 'rule'}),
    s('line', {x1: x(0), x2: x(0), y1: 3, y2: 21, class: 'mark'}),
  ];
  if (value.low !== undefined && value.high !== undefined) {
    marks.push(s('line', {x1: x(value.low), x2: x(value.high), y1: 12, y2: 12,
                          class: 'interval'}));
  }
  marks.push(s('circle', {
    cx: x(value.value), cy: 12, r: 5.5,
    class: value.value < 0 ? 'dot hurts' : 'dot'}));
  return figure(
    `${interval(value.value, value.low, value.high, signed)}; the line spans ` +
    'all heads of the model, the upright mark is zero', width, 24, ...marks);
}

export function effectPart(head: Head, report: Report): HTMLElement {
  const values = Object.entries(head.importance?.values ?? {});
  const about = new Map(report.importance?.criteria.map(
    (one) => [one.name, one.what]));
  return h('section', {class: 'question'},
    h('h4', {}, 'What is lost without it?'),
    values.length === 0 && h('p', {class: 'absent'},
      whyAbsent(report, 'importance')),
    ...values.map(([name, value]) => h('div', {class: 'role'},
      h('p', {class: 'role-name'}, h('strong', {}, name), ' ',
        h('span', {class: 'soft'},
          interval(value.value, value.low, value.high, signed))),
      effectLine(value, bounds(report, name)),
      about.has(name) && h('p', {class: 'evidence'}, about.get(name)))),
    values.length > 0 && h('p', {class: 'soft small'},
      `Loss: ${report.importance?.loss ?? ''}. Lines span all heads of the ` +
      'model; the upright mark is zero.'));
}
