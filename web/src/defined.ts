// Numbers that are not defined come as null. What is drawn by such a number is
// left out; where it would stand in a table it stays, as a dash.
import type {Report} from './report';

export function defined(report: Report): Report {
  const has = (value: number | null | undefined): boolean => value != null;
  for (const head of report.heads ?? []) {
    const values = head.importance?.values ?? {};
    for (const [name, effect] of Object.entries(values)) {
      if (!has(effect.value)) delete values[name];
    }
  }
  const {importance, similarity, composition} = report;
  if (importance !== undefined) {
    importance.layers = importance.layers?.filter((one) => has(one.value));
    for (const one of importance.criteria) {
      if (!has(one.gini)) delete one.gini;
      if (!has(one.effective)) delete one.effective;
    }
  }
  if (similarity?.map !== undefined) {
    similarity.map = similarity.map.filter((one) => has(one.x) && has(one.y));
  }
  if (composition !== undefined) {
    composition.edges = composition.edges.filter((one) => has(one.score));
  }
  return report;
}
