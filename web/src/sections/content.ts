// 3. What content does a head move? What it did to the tokens it read in the
// run, and what W_V W_O writes of a token.
import {h} from '../dom';
import {alone, signed} from '../format';
import type {Content, Head, Report} from '../report';
import {whyAbsent} from '../report';

// The score by weights is a detail: a head behind the first feed-forward does
// not read embeddings as they are.
function byWeights(content: Content): HTMLElement | null {
  const score = content.copying_vocabulary ?? content.copying;
  if (score === undefined || score === null) return null;
  const where = content.copying_vocabulary != null
    ? 'from tokens to logits (W_E W_V W_O W_U)'
    : 'within the stream (W_V W_O)';
  return h('details', {class: 'behind'},
    h('summary', {}, 'Copying by weights alone'),
    h('p', {}, `Score ${signed(score)} ${where}, from −1, what is read is ` +
      'suppressed, to +1, it is copied. It takes embeddings for what the ' +
      'head reads, and misleads where they are tied or the first ' +
      'feed-forward rewrites them. What the head does is said above.'));
}

export function contentPart(head: Head, report: Report): HTMLElement {
  const content = head.content;
  const writes = content?.writes ?? [];
  return h('section', {class: 'question'},
    h('h4', {}, h('span', {class: 'step-number'}, '3'),
      'What content does it move?'),
    content === undefined && h('p', {class: 'absent'},
      whyAbsent(report, 'content')),
    content?.says !== undefined && h('p', {}, content.says),
    content !== undefined && byWeights(content),
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
