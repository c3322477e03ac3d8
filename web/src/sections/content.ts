// 3. What content does a head move? What W_V W_O writes of a token it reads.
import {h} from '../dom';
import {alone, signed} from '../format';
import type {Content, Head, Report} from '../report';
import {whyAbsent} from '../report';

function copyingSentence(content: Content): string {
  const copying = content.copying;
  if (copying === undefined) return '';
  const how = copying > 0.5 ? 'It copies: what it reads it makes likelier.'
    : copying < -0.5 ? 'It suppresses: what it reads it makes less likely.'
    : 'It neither clearly copies nor suppresses what it reads.';
  return `${how} Copying score ${signed(copying)} on a scale from −1 to +1.`;
}

export function contentPart(head: Head, report: Report): HTMLElement {
  const content = head.content;
  const writes = content?.writes ?? [];
  return h('section', {class: 'question'},
    h('h4', {}, h('span', {class: 'step-number'}, '3'),
      'What content does it move?'),
    content === undefined && h('p', {class: 'absent'},
      whyAbsent(report, 'content')),
    content !== undefined && h('p', {}, copyingSentence(content)),
    writes.length > 0 && h('div', {class: 'figure'},
      h('p', {class: 'figure-title'},
        `Having read a token, it favours${
          content?.readout ? ` (${content.readout})` : ''}`),
      h('table', {class: 'writes'},
        h('thead', {class: 'visually-hidden'}, h('tr', {},
          h('th', {scope: 'col'}, 'Token read'),
          h('th', {scope: 'col'}, 'Tokens favoured, strongest first'))),
        h('tbody', {}, ...writes.map((row) => h('tr', {},
          h('th', {scope: 'row'}, h('bdi', {class: 'token'},
            alone(row.token))),
          h('td', {}, ...row.top.flatMap((item) => [
            h('bdi', {
              class: item.token === row.token ? 'token same' : 'token',
              title: `logit ${signed(item.logit)}`,
            }, alone(item.token)), ' ']))))))));
}
