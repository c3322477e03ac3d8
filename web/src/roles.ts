// Roles on the page: the report's words for each, a colour family and a short
// sign for the grid (so that nothing is told by colour alone).
import type {Head, Report, Role} from './report';

export interface RoleKind {
  family: string; // the CSS colours --NAME-fill and --NAME-ink
  sign: string; // two letters
  word: string; // up to six
  says: string;
}

const families: Record<string, string[]> = {
  position: ['previous-token', 'next-token', 'offset', 'self', 'local'],
  sink: ['first-token', 'last-token', 'source-end', 'delimiter'],
  repeat: ['duplicate', 'induction', 'retrieval'],
  language: ['syntactic', 'coreference'],
  meaning: ['rare-token', 'semantic'],
  broad: ['broad'],
  cross: ['monotone', 'translation'],
};
// Where the first two letters would be another's too.
const signs: Record<string, string> = {'next-token': 'Nx', semantic: 'Sm'};
const none: RoleKind = {
  family: 'none', sign: '·', word: '·', says: 'no role passed its threshold',
};

let words: Record<string, {word: string; says: string}> = {};

// Before anything is drawn.
export function learnWords(report: Report): void {
  words = report.roles?.words ?? {};
}

export function kindOf(name: string | undefined): RoleKind {
  if (name === undefined || name === 'no role') return none;
  const role = stem(name);
  const {word, says} = words[role] ?? {word: role.slice(0, 6), says: ''};
  return {
    family: Object.keys(families).find(
      (one) => families[one]?.includes(role)) ?? 'other',
    sign: signs[role] ?? word.charAt(0).toUpperCase() + word.slice(1, 2),
    word, says,
  };
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
