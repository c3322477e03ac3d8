// Rows of a sequence in blocks, summed to words. Door: positions.h.
#include "headwise/heads/profile/words/positions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/observation.h"

namespace headwise {
namespace {

constexpr int kOffsets = 2 * kMostOffset + 1;
constexpr int kLocalWords = 4;
// Probabilities that are held at once: 16 MiB.
constexpr int64_t kMostProbabilities = int64_t{1} << 22;

// Tokens [begin, end) of each word of a sequence; special ones have none.
struct Word {
  int64_t begin = 0;
  int64_t end = 0;
};

std::vector<Word> WordsOf(const TokenNotes& notes) {
  std::vector<Word> words;
  for (int64_t i = 0; i < notes.size(); ++i) {
    if (notes.word[i] < 0) continue;
    if (notes.word[i] >= static_cast<int64_t>(words.size())) {
      words.push_back({i, i});
    }
    words.back().end = i + 1;
  }
  return words;
}

// One attending word: mass on every word that it sees, [first, last].
struct WordRow {
  int64_t word = 0;
  int64_t last = 0;
  std::span<const double> mass;
};

}  // namespace

// Of one head and sequence.
struct WordObserver::Sums {
  struct Form {
    double x = 0, w = 0;
  };
  std::array<Form, kOffsets> mass, chance, argmax;
  Form local, local_chance;

  void Add(const WordRow& row) {
    const double visible = static_cast<double>(row.last + 1);
    const auto largest =
        std::max_element(row.mass.begin(), row.mass.begin() + row.last + 1) -
        row.mass.begin();
    double near = 0, near_seen = 0;
    for (int k = -kMostOffset; k <= kMostOffset; ++k) {
      const int64_t to = row.word + k;
      if (to < 0 || to > row.last) continue;
      const auto add = [&](Form& form, double value) {
        form.x += value;
        form.w += 1;
      };
      add(mass[k + kMostOffset], row.mass[to]);
      add(chance[k + kMostOffset], 1 / visible);
      add(argmax[k + kMostOffset], largest == to ? 1 : 0);
      if (std::abs(k) > kLocalWords) continue;
      near += row.mass[to];
      near_seen += 1;
    }
    local.x += near;
    local.w += 1;
    local_chance.x += near_seen / visible;
    local_chance.w += 1;
  }

  void AddTo(Profile& profile, size_t head) const {
    const auto add = [&](const std::string& name, const Form& form) {
      profile.metrics.at(kWordsPrefix + name)[head].Add(form.x, form.w);
    };
    for (int k = -kMostOffset; k <= kMostOffset; ++k) {
      const std::string name = OffsetMetric(k);
      add(name, mass[k + kMostOffset]);
      add(name + ".chance", chance[k + kMostOffset]);
      add(name + ".argmax", argmax[k + kMostOffset]);
    }
    add("local", local);
    add("local.chance", local_chance);
  }
};

WordObserver::WordObserver(Context& context, Profile& profile,
                           int64_t min_visible)
    : context_(context), profile_(profile), min_visible_(min_visible) {
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    const HeadRef& head = profile.heads[i];
    first_head_.try_emplace({head.kind, head.layer}, i);
  }
  const auto make = [&](const std::string& name) {
    profile.Tallies(kWordsPrefix + name);
  };
  for (int k = -kMostOffset; k <= kMostOffset; ++k) {
    for (const char* form : {"", ".chance", ".argmax"}) {
      make(OffsetMetric(k) + form);
    }
  }
  make("local");
  make("local.chance");
}

void WordObserver::AfterAttention(const AttentionSite& site,
                                  const AttentionProblem& problem,
                                  const AttentionArgs& args) {
  if (site.kind == AttentionKind::kCross) return;
  const size_t first = first_head_.at({site.kind, site.layer});
  for (size_t b = 0; b < sequences_.size(); ++b) {
    const SequenceNotes& notes = sequences_[b];
    AddSequence(
        problem, args, static_cast<int64_t>(b),
        site.kind == AttentionKind::kDecoder ? notes.target : notes.source,
        first);
  }
}

// The rows of as many whole words as fit are looked at together.
void WordObserver::AddSequence(const AttentionProblem& problem,
                               const AttentionArgs& args, int64_t sequence,
                               const TokenNotes& notes, size_t first) {
  const std::vector<Word> words = WordsOf(notes);
  const int64_t count = static_cast<int64_t>(words.size());
  const int64_t heads = problem.heads, keys = problem.key_len;
  const bool causal = problem.mask.after == 0;
  const int64_t fit = std::max<int64_t>(1, kMostProbabilities / (heads * keys));
  std::vector<Sums> sums(heads);
  for (int64_t begin = 0; begin < count;) {
    std::vector<RowRef> rows;
    int64_t end = begin;
    while (end < count &&
           (end == begin || words[end].end - words[begin].begin <= fit)) {
      for (int64_t i = words[end].begin; i < words[end].end; ++i) {
        rows.push_back({sequence, i});
      }
      ++end;
    }
    const int64_t total = static_cast<int64_t>(rows.size());
    HostResult shares(context_, DType::kF32, {total, heads, keys});
    AttentionRows(context_, problem, args, rows, shares.view());
    shares.Fetch(context_);
    context_.pool().ParallelFor(heads, [&](int64_t h, int) {
      std::vector<double> mass(count);
      int64_t row = 0;
      for (int64_t q = begin; q < end; ++q) {
        const int64_t pieces = words[q].end - words[q].begin;
        const int64_t last = causal ? q : count - 1;
        std::fill(mass.begin(), mass.end(), 0.0);
        bool finite = true;
        for (int64_t p = 0; p < pieces; ++p, ++row) {
          const float* from = shares.As<float>() + (row * heads + h) * keys;
          for (int64_t k = 0; k <= last; ++k) {
            for (int64_t j = words[k].begin; j < words[k].end; ++j) {
              mass[k] += from[j] / static_cast<double>(pieces);
            }
            finite &= std::isfinite(mass[k]);
          }
        }
        if (q == 0 || !finite || last + 1 < min_visible_) continue;
        sums[h].Add({q, last, mass});
      }
    });
    begin = end;
  }
  for (int64_t h = 0; h < heads; ++h) {
    sums[h].AddTo(profile_, first + static_cast<size_t>(h));
  }
}

}  // namespace headwise
