// What the page knows about role names: a colour family, a short sign for the
// grid (so that nothing is told by colour alone), and one sentence.
import type {Head, Role} from './report';

export interface RoleKind {
  family: string; // the CSS colours --NAME-fill and --NAME-ink
  sign: string; // two letters
  word: string; // up to six
  says: string;
}

const kinds: [RegExp, RoleKind][] = [
  [/^previous-token/, {family: 'position', sign: 'Pr', word: 'prev',
    says: 'reads the token just before'}],
  [/^next-token/, {family: 'position', sign: 'Nx', word: 'next',
    says: 'reads the token just after'}],
  [/^offset/, {family: 'position', sign: 'Of', word: 'offset',
    says: 'reads one fixed distance away'}],
  [/^self/, {family: 'position', sign: 'Se', word: 'self',
    says: 'reads the token itself'}],
  [/^local/, {family: 'position', sign: 'Lo', word: 'local',
    says: 'reads the few tokens around'}],
  [/^first-token/, {family: 'sink', sign: 'Fi', word: 'first',
    says: 'rests on the first token: a sink'}],
  [/^last-token/, {family: 'sink', sign: 'La', word: 'last',
    says: 'rests on the last token'}],
  [/^source-end/, {family: 'sink', sign: 'En', word: 'end',
    says: 'rests on the end of the source'}],
  [/^delimiter/, {family: 'sink', sign: 'De', word: 'delim',
    says: 'rests on punctuation and special tokens'}],
  [/^duplicate/, {family: 'repeat', sign: 'Du', word: 'dupl',
    says: 'finds earlier copies of the same token'}],
  [/^induction/, {family: 'repeat', sign: 'In', word: 'induct',
    says: 'finds what followed the same token before'}],
  [/^retrieval/, {family: 'repeat', sign: 'Re', word: 'retr',
    says: 'fetches a fact from far back'}],
  [/^syntactic/, {family: 'language', sign: 'Sy', word: 'syntax',
    says: 'follows a grammatical relation'}],
  [/^coreference/, {family: 'language', sign: 'Co', word: 'coref',
    says: 'finds what a pronoun or name refers to'}],
  [/^rare/, {family: 'meaning', sign: 'Ra', word: 'rare',
    says: 'reads the rarest token of the sentence'}],
  [/^semantic/, {family: 'meaning', sign: 'Sm', word: 'sem',
    says: 'reads tokens of similar meaning'}],
  [/^broad/, {family: 'broad', sign: 'Br', word: 'broad',
    says: 'spreads over everything it sees'}],
  [/^monotone/, {family: 'cross', sign: 'Mo', word: 'mono',
    says: 'walks along the source in step'}],
  [/^translation/, {family: 'cross', sign: 'Tr', word: 'transl',
    says: 'finds the word to translate'}],
];
const none: RoleKind = {
  family: 'none', sign: '·', word: '·', says: 'no role passed its threshold',
};

export function kindOf(name: string | undefined): RoleKind {
  if (name === undefined || name === 'no role') return none;
  return kinds.find(([pattern]) => pattern.test(name))?.[1] ??
    {family: 'other', sign: '?', word: name.slice(0, 6), says: ''};
}

// Roles that say something; a report may list "no role" as one.
export function rolesOf(head: Head): Role[] {
  return head.roles.filter((role) => role.name !== 'no role');
}

// Whether a role says what the head does; being broad is a mere shape.
export function hasFunction(head: Head): boolean {
  return rolesOf(head).some((role) => role.shape !== true);
}

export function firstRole(head: Head): Role | undefined {
  return rolesOf(head)[0];
}

// "previous-token", "syntactic(nsubj)" → the name without its parameter.
export function stem(name: string): string {
  return name.replace(/\s*\(.*$|\s+[+−-]?\d+$/, '');
}
