// The head that is shown, and who wants to know when it changes. It is part
// of the address (#head-5.1), so that a link leads to a head.
import type {Head, Report} from './report';

export class Selection {
  private readonly listeners: ((head: Head) => void)[] = [];
  private readonly byId: Map<string, Head>;
  current: Head;

  constructor(readonly report: Report) {
    this.byId = new Map(report.heads.map((head) => [head.id, head]));
    const start = this.fromAddress() ?? this.mostTelling();
    if (start === undefined) throw new Error('a report without heads');
    this.current = start;
    addEventListener('hashchange', () => {
      const head = this.fromAddress();
      if (head !== undefined) this.select(head.id);
    });
  }

  private fromAddress(): Head | undefined {
    return this.byId.get(decodeURIComponent(
      location.hash.replace(/^#head-/, '')));
  }

  // The reader begins with a head that has something to show.
  private mostTelling(): Head | undefined {
    const worth = (head: Head): number => {
      const role = head.roles[0];
      if (role === undefined || role.name === 'no role') return -1;
      return role.score - (/^(first|broad|local)/.test(role.name) ? 1 : 0) +
        (role.name === 'induction' ? 1 : 0);
    };
    return [...this.report.heads].sort((a, b) => worth(b) - worth(a))[0];
  }

  head(id: string): Head | undefined {
    return this.byId.get(id);
  }

  select(id: string): void {
    const head = this.byId.get(id);
    if (head === undefined || head === this.current) return;
    this.current = head;
    for (const tell of this.listeners) tell(head);
  }

  // Calls now and at every change.
  follow(tell: (head: Head) => void): void {
    this.listeners.push(tell);
    tell(this.current);
  }
}
