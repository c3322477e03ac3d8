// Roles on the page, by the report's own words, colour family and sign of each
// (so that nothing is told by colour alone).
import type {Head, Report, Role, RoleKind} from './report';

const none: RoleKind = {
  family: 'none', sign: '·', word: '·', says: 'no role passed its threshold',
};

let kinds: Record<string, RoleKind> = {};

// Before anything is drawn.
export function learnKinds(report: Report): void {
  kinds = report.roles?.kinds ?? {};
}

export function kindOf(name: string | undefined): RoleKind {
  if (name === undefined || name === 'no role') return none;
  return kinds[stem(name)] ??
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
