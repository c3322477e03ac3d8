// Choosing and keeping rows. Door: examples.h.
#include "headwise/heads/profile/examples.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/heads/profile/host_result.h"

namespace headwise {
namespace {

constexpr int64_t kKeys = 8;           // largest keys kept of a row
constexpr int64_t kTokensBefore = 40;  // of the excerpt around the query
constexpr int64_t kTokensAfter = 8;

uint64_t RowHash(uint64_t window, int64_t i) {
  const auto words = Philox(window, 0, static_cast<uint64_t>(i));
  return (uint64_t{words[0]} << 32) | words[1];
}

// Whether an example would be among the kept ones of its kind.
bool IsWorthKeeping(const std::vector<Example>& kept, const Example& example) {
  size_t better = 0;
  for (const Example& other : kept) {
    if (other.kind != example.kind) continue;
    if (other.hash == example.hash) return false;
    better += other.score > example.score || (other.score == example.score &&
                                              other.hash < example.hash)
                  ? 1
                  : 0;
  }
  return better < kExamplesPerKind;
}

Example OfKind(const char* kind) {
  Example example;
  example.kind = kind;
  return example;
}

// The row of a sequence with the smallest hash, the same for every head.
Example SampleOf(const SiteNotes& site, const SiteNotes::Sequence& s) {
  Example sample = OfKind("sample");
  sample.query = -1;
  for (int64_t i = 0; i < s.queries; ++i) {
    if (!site.rows[s.query_begin + i].counted) continue;
    const uint64_t hash = RowHash(s.key, i);
    if (sample.query >= 0 && hash >= sample.hash) continue;
    sample.hash = hash;
    sample.query = i;
  }
  return sample;
}

// Kinds of the best rows.
constexpr const char* kBestKinds[kBestRows] = {"strongest", "induction",
                                               "duplicate"};

// The best row of each other kind of one head, without its keys.
std::vector<Example> BestOf(const BestRows& best, int64_t at,
                            const SiteNotes::Sequence& s) {
  std::vector<Example> examples;
  for (int kind = 0; kind < kBestRows; ++kind) {
    const int32_t row = best.rows[at * kBestRows + kind];
    if (row < 0) continue;
    Example& example = examples.emplace_back(OfKind(kBestKinds[kind]));
    example.score = best.scores[at * kBestRows + kind];
    example.query = row;
    example.hash = RowHash(s.key, row);
  }
  return examples;
}

void AddTokens(const SiteNotes::Sequence& s, const TokenTable& table,
               Example& example) {
  const std::vector<int32_t>& ids = s.query_notes->ids;
  example.first = std::max<int64_t>(0, example.query - kTokensBefore);
  const int64_t end = std::min(s.queries, example.query + kTokensAfter + 1);
  for (int64_t i = example.first; i < end; ++i) {
    example.tokens.push_back(table.text(ids[i]));
  }
}

// A row that a head will keep.
struct Fresh {
  int64_t head = 0;
  RowRef row;
  Example example;
};

// Their largest keys. The heads ascend.
void AddKeys(Context& context, const HeadSource& source, const SiteNotes& site,
             const TokenTable& table, std::span<Fresh> fresh) {
  std::vector<int32_t> active;
  std::vector<RowRef> rows;
  for (const Fresh& one : fresh) {
    const auto head = static_cast<int32_t>(one.head);
    if (active.empty() || active.back() != head) active.push_back(head);
    rows.push_back(one.row);
  }
  AttentionArgs some = source.args;
  some.active_heads = active;
  const auto count = static_cast<int64_t>(rows.size());
  const int64_t heads = source.problem.heads;
  HostResult keys(context, DType::kI32, {count, heads, kKeys});
  HostResult masses(context, DType::kF32, {count, heads, kKeys});
  AttentionTopK(context, source.problem, some, rows, keys.view(),
                masses.view());
  keys.Fetch(context);
  masses.Fetch(context);
  for (int64_t r = 0; r < count; ++r) {
    const std::vector<int32_t>& ids =
        site.sequences[rows[r].sequence].key_notes->ids;
    for (int64_t c = 0; c < kKeys; ++c) {
      const int64_t at = (r * heads + fresh[r].head) * kKeys + c;
      const int32_t j = keys.As<int32_t>()[at];
      if (j < 0) break;
      fresh[r].example.keys.push_back(
          {j, table.text(ids[j]), masses.As<float>()[at]});
    }
  }
}

}  // namespace

BestRows FindBestRows(const SiteResults& results) {
  const SiteNotes& site = results.notes();
  const int64_t heads = results.heads();
  BestRows best;
  const size_t size = site.sequences.size() * heads * kBestRows;
  best.rows.assign(size, -1);
  best.scores.assign(size, 0);
  const auto offer = [&](int64_t at, int32_t row, float score) {
    if (!(score > best.scores[at])) return;
    best.scores[at] = score;
    best.rows[at] = row;
  };
  for (size_t b = 0; b < site.sequences.size(); ++b) {
    const SiteNotes::Sequence& s = site.sequences[b];
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (static_cast<int64_t>(b) * heads + h) * kBestRows;
      for (int32_t i = 0; i < s.queries; ++i) {
        const int64_t t = s.query_begin + i;
        const SiteNotes::Row& row = site.rows[t];
        if (!row.counted || !std::isfinite(results.entropy(h, t))) continue;
        offer(at + kBestKept, i, results.kept_max(h, t));
        if (!site.causal) continue;
        if (row.induction.seen > 0) {
          offer(at + kBestInduction, i, results.label(h, t, kAfterSameToken));
        }
        if (row.duplicate.seen > 0) {
          offer(at + kBestDuplicate, i,
                results.label(h, t, kSameToken) - results.self(h, t));
        }
      }
    }
  }
  return best;
}

void KeepExamples(Context& context, const HeadSource& source,
                  const SiteResults& results, const BestRows& best,
                  const TokenTable& table, ProfilePlace place) {
  const SiteNotes& site = results.notes();
  const int64_t heads = results.heads();
  std::vector<Example> samples;
  for (const SiteNotes::Sequence& s : site.sequences) {
    samples.push_back(SampleOf(site, s));
  }
  std::vector<Fresh> fresh;
  for (int64_t h = 0; h < heads; ++h) {
    const std::vector<Example>& kept = place.profile->examples[place.first + h];
    for (size_t b = 0; b < site.sequences.size(); ++b) {
      const SiteNotes::Sequence& s = site.sequences[b];
      std::vector<Example> offers =
          BestOf(best, static_cast<int64_t>(b) * heads + h, s);
      if (samples[b].query >= 0) offers.push_back(samples[b]);
      for (Example& offer : offers) {
        if (!IsWorthKeeping(kept, offer)) continue;
        AddTokens(s, table, offer);
        const RowRef row = {static_cast<int64_t>(b), offer.query};
        fresh.push_back({h, row, std::move(offer)});
      }
    }
    for (const HeadSink& sink : results.sinks(h)) {
      const SiteNotes::Sequence& s = site.sequences[sink.sequence];
      ++place.profile
            ->sinks[place.first + h][table.text(s.key_notes->ids[sink.key])];
    }
  }
  // Head by head, where each costs what it costs; a device takes them at once.
  const bool at_once = !context.device().is_cpu();
  for (size_t begin = 0; begin < fresh.size();) {
    size_t end = begin + 1;
    while (end < fresh.size() &&
           (at_once || fresh[end].head == fresh[begin].head)) {
      ++end;
    }
    const std::span<Fresh> group = std::span(fresh).subspan(begin, end - begin);
    AddKeys(context, source, site, table, group);
    begin = end;
  }
  for (size_t n = 0; n < fresh.size(); ++n) {
    const int64_t h = fresh[n].head;
    std::vector<Example>& kept = place.profile->examples[place.first + h];
    kept.push_back(std::move(fresh[n].example));
    if (n + 1 == fresh.size() || fresh[n + 1].head != h) TrimExamples(kept);
  }
}

}  // namespace headwise
