// 3. What content does a head move? What W_V W_O writes of a token it reads.
import {h} from '../dom';
import {alone, signed} from '../format';
import type {Content, Head, Report} from '../report';
import {whyAbsent} from '../report';

// From tokens to logits where the model has a vocabulary head: a head may write
// a token in another place than where it read it.
function copyingSentence(content: Content): string {
  const score = content.copying_vocabulary ?? content.copying;
  if (score === undefined) return '';
  const how = score > 0.5 ? 'It copies: what it reads it makes likelier.'
    : score < -0.5 ? 'It suppresses: what it reads it makes less likely.'
    : score > 0.05 ? 'It leans to copying what it reads.'
    : score < -0.05 ? 'It leans to suppressing what it reads.'
    : 'What it writes is neither for nor against the token that it read.';
  const where = content.copying_vocabulary !== undefined
    ? 'from tokens to logits' : 'within the stream';
  return `${how} Copying score ${signed(score)} ${where}, on a scale from ` +
    '−1 to +1.';
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
