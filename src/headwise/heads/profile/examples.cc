// Choosing and keeping rows. Door: examples.h.
#include "headwise/heads/profile/examples.h"

#include <algorithm>
#include <cmath>

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

// The best row of each other kind of one head, without its keys.
std::vector<Example> BestOf(const SiteResults& results, int64_t h,
                            const SiteNotes::Sequence& s) {
  const SiteNotes& site = results.notes();
  std::vector<Example> best = {OfKind("strongest"), OfKind("induction"),
                               OfKind("duplicate")};
  const auto offer = [&](int kind, int64_t i, double score) {
    if (!(score > best[kind].score)) return;
    best[kind].score = score;
    best[kind].query = i;
  };
  for (int64_t i = 0; i < s.queries; ++i) {
    const int64_t t = s.query_begin + i;
    const SiteNotes::Row& row = site.rows[t];
    if (!row.counted || !std::isfinite(results.entropy(h, t))) continue;
    offer(0, i, results.kept_max(h, t));
    if (!site.causal) continue;
    if (row.induction.seen > 0) {
      offer(1, i, results.label(h, t, kAfterSameToken));
    }
    if (row.duplicate.seen > 0) {
      offer(2, i, results.label(h, t, kSameToken) - results.self(h, t));
    }
  }
  std::erase_if(best, [](const Example& e) { return e.score <= 0; });
  for (Example& example : best) example.hash = RowHash(s.key, example.query);
  return best;
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

}  // namespace

void KeepExamples(Context& context, const HeadSource& source,
                  const SiteResults& results, const TokenTable& table,
                  ProfilePlace place) {
  const SiteNotes& site = results.notes();
  const int64_t heads = results.heads();
  std::vector<Example> samples;
  for (const SiteNotes::Sequence& s : site.sequences) {
    samples.push_back(SampleOf(site, s));
  }
  for (int64_t h = 0; h < heads; ++h) {
    std::vector<Example>& kept = place.profile->examples[place.first + h];
    std::vector<Example> fresh;
    std::vector<RowRef> rows;
    for (size_t b = 0; b < site.sequences.size(); ++b) {
      const SiteNotes::Sequence& s = site.sequences[b];
      std::vector<Example> offers = BestOf(results, h, s);
      if (samples[b].query >= 0) offers.push_back(samples[b]);
      for (Example& offer : offers) {
        if (!IsWorthKeeping(kept, offer)) continue;
        rows.push_back({static_cast<int64_t>(b), offer.query});
        AddTokens(s, table, offer);
        fresh.push_back(std::move(offer));
      }
    }
    for (const HeadSink& sink : results.sinks(h)) {
      const SiteNotes::Sequence& s = site.sequences[sink.sequence];
      ++place.profile
            ->sinks[place.first + h][table.text(s.key_notes->ids[sink.key])];
    }
    if (rows.empty()) continue;
    AttentionArgs one = source.args;
    const int32_t active[] = {static_cast<int32_t>(h)};
    one.active_heads = active;
    const int64_t count = static_cast<int64_t>(rows.size());
    HostResult keys(context, DType::kI32, {count, heads, kKeys});
    HostResult masses(context, DType::kF32, {count, heads, kKeys});
    AttentionTopK(context, source.problem, one, rows, keys.view(),
                  masses.view());
    keys.Fetch(context);
    masses.Fetch(context);
    for (int64_t r = 0; r < count; ++r) {
      const std::vector<int32_t>& ids =
          site.sequences[rows[r].sequence].key_notes->ids;
      for (int64_t c = 0; c < kKeys; ++c) {
        const int64_t at = (r * heads + h) * kKeys + c;
        const int32_t j = keys.As<int32_t>()[at];
        if (j < 0) break;
        fresh[r].keys.push_back(
            {j, table.text(ids[j]), masses.As<float>()[at]});
      }
      kept.push_back(std::move(fresh[r]));
    }
    TrimExamples(kept);
  }
}

}  // namespace headwise
