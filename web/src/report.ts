// The report as the page reads it: docs/report.schema.json in TypeScript.
// Every part but `heads` may be absent; the page says so where it would stand.

export interface Estimate {
  mean: number | null; // null: not defined
  low?: number;
  high?: number;
  count?: number | null;
}

export interface Role {
  name: string;
  shape?: boolean; // how attention is spread, not what it is for
  score: number;
  low?: number;
  high?: number;
  count?: number;
  sink_excluded?: boolean;
  content_mass?: number; // share of the attention that is not at the sink
  threshold?: number;
  chance?: number;
  evidence?: string;
  check?: string; // what ablating the head does to the matching behaviour
}

// How a role is drawn and told.
export interface RoleKind {
  word: string; // up to six letters
  sign: string; // two letters
  family: string; // the CSS colours --NAME-fill and --NAME-ink
  says: string;
}

// Share of the attention on keys from..to positions after the query.
export interface Bucket {
  from: number;
  to: number;
  mass: number;
}

export interface Share {
  token: string;
  share: number;
}

// One row of attention: `query` looks at every token.
export interface Example {
  tokens: string[];
  query: number;
  weights: number[];
  title?: string;
  score?: number;
}

export interface Content {
  says?: string; // whether it copies or suppresses, by the run alone
  copying_run?: Estimate; // added to the logit of the token it reads most
  copying?: number | null; // by weights: Σ Re λ / Σ |λ| of W_V W_O
  copying_vocabulary?: number | null; // the same of W_E W_V W_O W_U
  norm?: number;
  readout?: string; // what turned written vectors into tokens
  writes?: {token: string; top: {token: string; logit: number}[]}[];
}

export interface Effect {
  value: number;
  low?: number;
  high?: number;
}

export interface HeadImportance {
  class?: string;
  rank?: number; // 1: the most important
  values: Record<string, Effect>;
}

export interface Head {
  id: string;
  layer: number;
  head: number;
  kind: string;
  roles: Role[];
  closest?: string; // without a role: what came closest
  metrics?: Record<string, Estimate>;
  distance?: Bucket[];
  top_keys?: Share[];
  attention?: string[]; // per sample: base64 of bytes, weight · 255, row-major
  examples?: Example[];
  content?: Content;
  importance?: HeadImportance;
}

export interface Sample {
  title: string;
  tokens: string[];
  keys?: string[]; // cross-attention: what is looked at
  kind?: string; // the attention kind it was recorded for
}

export interface Third {
  name: string;
  layers: number[];
  heads: number;
  counts: Record<string, number>;
}

export interface Importance {
  loss: string;
  base?: number;
  by: string; // the criterion that the ranking, classes and summary follow
  criteria: {
    name: string;
    what: string;
    gini?: number;
    effective?: number;
  }[];
  correlations?: number[][];
  layers?: {kind?: string; layer: number; value: number}[];
  carry?: {share: number; heads: number};
  // Whether any head hurts: none, some, not-tested or not-testable.
  hurting?: {
    answer: string; reason?: string; predictions?: number;
    smallest_seen?: number;
  };
  negative?: string[];
  least_negative?: number; // of the loss, by which they hurt
  classes?: Record<string, number>;
  notes?: string[]; // what could not be told
}

export interface Similarity {
  measures: {
    name: string;
    what: string;
    distance?: boolean;
    pairs: {a: string; b: string; value: number}[];
  }[];
  map?: {head: string; x: number; y: number; cluster: number}[];
  map_of?: string;
  clusters?: string[][];
}

export interface Edge {
  from: string;
  to: string;
  kind: string; // q, k or v
  score: number;
  baseline?: number;
  effect?: number;
}

export interface Composition {
  note?: string;
  edges: Edge[];
}

export interface Definition {
  name: string;
  sentence: string;
  trap?: string;
}

export interface Report {
  format: string;
  program?: string;
  model: {
    name: string;
    hash?: string;
    type?: string;
    kind?: string;
    width?: number;
    head_dim?: number;
    vocabulary?: number;
    parameters?: number;
  };
  profile?: {
    texts?: string[];
    sequences?: number;
    tokens?: number;
    context?: number;
  };
  summary: {sentences: string[]};
  heads: Head[];
  samples?: Sample[];
  top_keys_on?: {sequences: number; tokens: number};
  roles?: {
    with_role?: number;
    only_shape?: number;
    thirds: Third[];
    kinds?: Record<string, RoleKind>; // by a role's name without parameter
  };
  importance?: Importance;
  similarity?: Similarity;
  composition?: Composition;
  definitions?: Definition[];
  absent?: {part: string; why: string}[];
}

// Why a part is not there, in a sentence.
export function whyAbsent(report: Report, part: string): string {
  return report.absent?.find((one) => one.part === part)?.why ??
    'This report was made without it.';
}

// The weights [rows, columns] of one sample, in [0, 1].
export function decodeWeights(text: string): Float32Array {
  const bytes = atob(text);
  return Float32Array.from({length: bytes.length},
                           (_, i) => bytes.charCodeAt(i) / 255);
}
