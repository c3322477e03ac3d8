// Choosing and keeping rows. Door: examples.h.
#include "headwise/heads/profile/examples.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "headwise/heads/profile/host_result.h"

namespace headwise {
namespace {

constexpr int64_t kKeys = 8;  // largest keys kept of a row
// Shares that a device looks at in one call.
constexpr int64_t kMostShares = int64_t{1} << 26;
constexpr int64_t kTokensBefore = 40;  // of the excerpt around the query
constexpr int64_t kTokensAfter = 8;

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

// What an example of a kind must not fall behind: the last of the kept, once
// they are as many as there may be.
struct Bar {
  size_t kept = 0;
  double score = 0;
  uint64_t hash = 0;

  Bar(const std::vector<Example>& examples, const char* kind) {
    for (const Example& example : examples) {
      if (example.kind != kind) continue;
      const bool is_last = kept++ == 0 || IsBehind(example.score, example.hash);
      if (!is_last) continue;
      score = example.score;
      hash = example.hash;
    }
  }
  bool IsBehind(double other, uint64_t other_hash) const {
    return other < score || (other == score && other_hash > hash);
  }
  bool Refuses(double other, uint64_t other_hash) const {
    return kept >= kExamplesPerKind && IsBehind(other, other_hash);
  }
};

// Kinds of the best rows.
constexpr const char* kBestKinds[kBestRows] = {"strongest", "induction",
                                               "duplicate"};
static_assert(kBestRows == 3);
constexpr const char* kSample = "sample";

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

void KeepExamples(Context& context, const HeadSource& source,
                  const SiteResults& results, const BestRows& best,
                  const TokenTable& table, ProfilePlace place) {
  const SiteNotes& site = results.notes();
  const int64_t heads = results.heads();
  std::vector<Fresh> fresh;
  for (int64_t h = 0; h < heads; ++h) {
    const std::vector<Example>& kept = place.profile->examples[place.first + h];
    const auto offer = [&](size_t b, const char* kind, const Bar& bar,
                           double score, int64_t row, uint64_t hash) {
      if (bar.Refuses(score, hash)) return;
      Example example;
      example.kind = kind;
      example.score = score;
      example.query = row;
      example.hash = hash;
      if (!IsWorthKeeping(kept, example)) return;
      AddTokens(site.sequences[b], table, example);
      fresh.push_back({h, {static_cast<int64_t>(b), row}, std::move(example)});
    };
    const Bar bars[] = {Bar(kept, kBestKinds[0]), Bar(kept, kBestKinds[1]),
                        Bar(kept, kBestKinds[2])};
    const Bar sample_bar(kept, kSample);
    for (size_t b = 0; b < site.sequences.size(); ++b) {
      const SiteNotes::Sequence& s = site.sequences[b];
      for (int kind = 0; kind < kBestRows; ++kind) {
        const size_t at = (b * heads + h) * kBestRows + kind;
        const int32_t row = best.rows[at];
        const double score = best.scores[at];
        if (row < 0 || bars[kind].Refuses(score, 0)) continue;
        offer(b, kBestKinds[kind], bars[kind], score, row, RowHash(s.key, row));
      }
      if (s.sample >= 0) {
        offer(b, kSample, sample_bar, 0, s.sample, s.sample_hash);
      }
    }
  }
  // Head by head, where each costs what it costs; a device takes many at once.
  const bool is_device = !context.device().is_cpu();
  const size_t most = std::max<int64_t>(
      1, kMostShares / (heads * std::max<int64_t>(1, source.problem.key_len)));
  for (size_t begin = 0; begin < fresh.size();) {
    size_t end = begin + 1;
    while (end < fresh.size() &&
           (is_device ? end - begin < most
                      : fresh[end].head == fresh[begin].head)) {
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

void CountSinks(const SiteResults& results, const TokenTable& table,
                size_t first_head, SinkCounts& sinks) {
  const SiteNotes& site = results.notes();
  for (int64_t h = 0; h < results.heads(); ++h) {
    for (const HeadSink& sink : results.sinks(h)) {
      const SiteNotes::Sequence& s = site.sequences[sink.sequence];
      ++sinks[first_head + h][table.text(s.key_notes->ids[sink.key])];
    }
  }
}

}  // namespace headwise
