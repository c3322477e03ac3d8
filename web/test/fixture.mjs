// A report made by rule, for looking at the page and for its tests: no model
// was run. `fixture({layers, heads})` has every part; tests take parts away.

const text = ('The keeper of the lighthouse wrote the date in her book . ' +
  'The keeper of the lighthouse lit the lamp , and Mara watched').split(' ');

// The same numbers every time.
function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

const roleNames = ['previous-token', 'first-token', 'induction', 'delimiter',
  'local', 'broad', 'duplicate', 'syntactic(nsubj)', 'semantic', 'self',
  'rare-token', 'coreference'];

// Where head `role` looks from token i: weights over 0..i.
function row(role, i, next) {
  const weights = Array.from({length: i + 1}, () => 0.05 * next());
  const add = (j, w) => { if (j >= 0 && j <= i) weights[j] += w; };
  if (role === 'previous-token') add(i - 1, 3);
  else if (role === 'first-token') add(0, 3);
  else if (role === 'self') add(i, 2);
  else if (role === 'local') [0, 1, 2, 3].forEach((k) => add(i - k, 0.6));
  else if (role === 'induction') {
    add(0, 0.3);
    for (let j = 1; j < i; ++j) if (text[j - 1] === text[i]) add(j, 2);
  } else if (role === 'duplicate') {
    add(0, 0.3);
    for (let j = 0; j < i; ++j) if (text[j] === text[i]) add(j, 2);
  } else if (role === 'delimiter') {
    text.forEach((word, j) => { if (/^\W$/.test(word)) add(j, 2); });
    add(0, 0.2);
  } else {
    for (let j = 0; j <= i; ++j) add(j, 0.4);
  }
  const total = weights.reduce((a, b) => a + b, 0);
  return weights.map((w) => w / total);
}

function attention(role, next) {
  const n = text.length;
  const bytes = Buffer.alloc(n * n);
  for (let i = 0; i < n; ++i) {
    row(role, i, next).forEach((w, j) => {
      bytes[i * n + j] = Math.round(255 * w);
    });
  }
  return bytes.toString('base64');
}

function estimate(mean, next) {
  const half = 0.01 + 0.02 * next();
  return {mean, low: mean - half, high: mean + half, count: 4000};
}

function oneHead(layer, head, layers, next) {
  const has = next() < 0.62;
  const name = roleNames[Math.floor(roleNames.length * next() ** 1.6)];
  const role = has ? name : 'none';
  const score = 0.55 + 0.44 * next();
  const roles = has ? [{
    name, score, low: score - 0.03, high: Math.min(1, score + 0.02),
    count: 3890, sink_excluded: next() < 0.2, threshold: 0.5, chance: 0.06,
    evidence: 'Most of its attention goes there, in text and in random ' +
      'repeats.',
    check: next() < 0.5 ? undefined : 'without it the loss on repeated ' +
      'tokens rises by 0.41 (0.36 to 0.47).',
  }] : [];
  if (has && next() < 0.15) {
    roles.push({name: 'local', score: 0.81, low: 0.8, high: 0.82, count: 3890,
                sink_excluded: false, threshold: 0.7, chance: 0.2,
                evidence: 'Mass within four tokens.'});
  }
  const value = 0.12 * next() ** 5 * (1 + layer / layers) -
    (next() < 0.06 ? 0.02 : 0.0004);
  const spans = [[-127, -64], [-63, -32], [-31, -16], [-15, -8], [-7, -4],
    [-3, -2], [-1, -1], [0, 0]];
  const masses = spans.map((_, i) => next() *
    (role === 'previous-token' && i === 6 ? 40 : role === 'self' && i === 7
      ? 30 : 1));
  const total = masses.reduce((a, b) => a + b, 0);
  const query = 14;
  return {
    id: `${layer}.${head}`, layer, head, kind: 'self', roles,
    metrics: {
      previous: estimate(role === 'previous-token' ? score : 0.1, next),
      first: estimate(role === 'first-token' ? score : 0.2, next),
      local: estimate(0.4, next), delimiter: estimate(0.12, next),
      'entropy.normalised': estimate(0.2 + 0.6 * next(), next),
      confidence: estimate(0.3 + 0.6 * next(), next),
      distance: estimate(1 + 30 * next(), next),
    },
    distance: spans.map(([from, to], i) => ({from, to,
                                             mass: masses[i] / total})),
    top_keys: [[' she', 0.14], [' the', 0.12], ['.', 0.08], [' keeper', 0.05],
      [',', 0.04]].map(([token, share]) => ({token, share})),
    attention: [attention(role, next)],
    examples: [{
      title: 'one of its surest rows', score: 0.93, tokens: tokens(), query,
      weights: [...row(role, query, next),
        ...Array(text.length - query - 1).fill(0)],
    }],
    content: {
      says: 'It copies: its output makes the token that it reads most ' +
        'likelier, by 1.93 logits above the mean (+1.80 to +2.06), in 336 ' +
        'rows of random tokens said twice.',
      copying_run: {mean: 1.93, low: 1.8, high: 2.06, count: 336},
      copying_vocabulary: -0.669,
      copying: 2 * next() - 1, readout: 'through the vocabulary',
      writes: [' keeper', ' lamp', ' Mara'].map((token) => ({
        token, top: [token, ' lighthouse', ' sea', ' book', ' night'].map(
          (one, i) => ({token: one, logit: 2.5 - 0.4 * i}))})),
    },
    importance: {
      class: value > 0.02 ? 'critical' : value < -0.005 ? 'negative'
        : 'auxiliary',
      values: {
        'ablation-mean': {value, low: value - 0.004, high: value + 0.004},
        'ablation-zero': {value: 1.3 * value, low: 1.3 * value - 0.006,
                          high: 1.3 * value + 0.006},
      },
    },
  };
}

function tokens() {
  return text.map((word, i) => i === 0 || /^\W$/.test(word) ? word
    : ` ${word}`);
}

function thirds(heads, layers) {
  return ['Early', 'Middle', 'Late'].map((name, third) => {
    const mine = heads.filter(
      (head) => Math.floor(3 * head.layer / layers) === third);
    const counts = {};
    for (const head of mine) {
      const role = head.roles[0]?.name.replace(/\(.*/, '') ?? 'no role';
      counts[role] = (counts[role] ?? 0) + 1;
    }
    return {name, layers: [...new Set(mine.map((head) => head.layer))],
            heads: mine.length, counts};
  });
}

const kinds = Object.fromEntries(['local', ...roleNames].map((name) => {
  const role = name.replace(/\(.*/, '');
  return [role, {word: role.slice(0, 6), sign: role.slice(0, 2),
                 family: 'position', says: `does what ${role} heads do`}];
}));

export function fixture({layers = 6, heads = 8, seed = 7} = {}) {
  const next = random(seed);
  const all = [];
  for (let layer = 0; layer < layers; ++layer) {
    for (let head = 0; head < heads; ++head) {
      all.push(oneHead(layer, head, layers, next));
    }
  }
  const by = 'ablation-mean';
  [...all].sort((a, b) => b.importance.values[by].value -
    a.importance.values[by].value)
    .forEach((head, i) => { head.importance.rank = i + 1; });
  const negative = all.filter((head) => head.importance.class === 'negative')
    .map((head) => head.id);
  const pair = () => {
    const pick = () => all[Math.floor(next() * all.length)].id;
    return {a: pick(), b: pick(), value: 0.05 * next()};
  };
  const edges = Array.from({length: 80}, () => {
    const from = all[Math.floor(next() * heads * (layers - 1))];
    const later = all.filter((head) => head.layer > from.layer);
    return {from: from.id, to: later[Math.floor(next() * later.length)].id,
            kind: 'qkv'[Math.floor(3 * next())], score: 0.1 + 0.3 * next(),
            baseline: 0.1, effect: 0.2 * next()};
  });
  return {
    format: 'headwise.report/1', program: 'headwise 0.1.0',
    model: {name: 'made-by-rule', hash: 'f00d', type: 'llama',
            kind: 'decoder', width: 256, head_dim: 32, vocabulary: 4096,
            parameters: 5795072},
    profile: {texts: ['the-lamp-at-sorrel-point.txt'], sequences: 24,
              tokens: 6120, context: 256},
    summary: {sentences: [
      `14 of ${all.length} heads carry 90 % of the importance; ` +
        `${negative.length} hurt.`,
      'The surest role is previous-token in head 1.3 (.98).',
      'Two pairs of heads are near duplicates.']},
    heads: all,
    samples: [{title: 'The text', tokens: tokens()}],
    top_keys_on: {sequences: 8, tokens: 128},
    roles: {thirds: thirds(all, layers), kinds},
    importance: {
      loss: 'next-token', base: 3.435, by,
      criteria: [
        {name: by, what: 'Loss added when the head’s output is replaced by ' +
          'its mean.', gini: 0.71, effective: 17.3},
        {name: 'ablation-zero', what: 'Loss added when it is replaced by zero.',
         gini: 0.69, effective: 18.9}],
      correlations: [[1, 0.93], [0.93, 1]],
      layers: Array.from({length: layers}, (_, layer) => (
        {kind: 'self', layer, value: 0.05 + 0.4 * next()})),
      carry: {share: 0.9, heads: 14}, negative, least_negative: 0.0054,
      classes: {critical: 9, negative: negative.length, redundant: 4,
                auxiliary: all.length - 13 - negative.length},
    },
    similarity: {
      measures: [
        {name: 'pattern', what: 'Jensen–Shannon divergence of their rows.',
         distance: true, pairs: Array.from({length: 8}, pair)},
        {name: 'output', what: 'CKA of what they write.', distance: false,
         pairs: Array.from({length: 8}, pair)}],
      map_of: 'Hellinger distance of their rows',
      map: all.map((head, i) => ({head: head.id, x: 2 * next() - 1,
                                  y: 2 * next() - 1, cluster: i % 9})),
      clusters: Array.from({length: 9}, (_, c) => all.filter(
        (_head, i) => i % 9 === c).map((head) => head.id)),
    },
    composition: {note: 'Rotary positions: at offset 0.', edges},
    definitions: [
      {name: 'previous', sentence: 'Mean A[i, i−1].',
       trap: 'Uniform causal attention over four tokens already has .36.'},
      {name: 'induction', sentence: 'Mass on what followed the same token ' +
        'before, on random repeats.', trap: 'On text it mixes with grammar.'}],
    absent: [],
  };
}

// The template with the data in it, as the program would write it.
export function fill(template, report) {
  const json = JSON.stringify(report).replace(/</g, '\\u003c');
  return template.replace(/(id="report">)\{\}/, (_, start) => start + json);
}
