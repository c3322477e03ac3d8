// Claim: in "Apple released a new phone because it is tasty" the near cue says
//   phone and the meaning cue says apple; one head picks one cue, two heads
//   keep both.
// Expectation: a grammar of such sentences, one layer that is to name both the
//   nearest noun and the noun that the last word fits. Where they disagree, one
//   head names the worse of the two in at most 60 % of the sentences, two
//   heads name each in at least 95 %.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "headwise/study/support/toy.h"

namespace headwise {
namespace tasty_study {
namespace {

constexpr int kKinds = 4;      // of nouns: food, devices, animals, places
constexpr int kNounsEach = 6;  // of a kind
constexpr int kNouns = kKinds * kNounsEach;
constexpr int kSlots = 8;  // words before the last
constexpr int kFillers = 6;
// Columns of a word: nouns, last words (one a kind), fillers, slots.
constexpr int kLast = kNouns, kFiller = kLast + kKinds;
constexpr int kSlot = kFiller + kFillers;
constexpr int64_t kWidth = 48;
static_assert(kSlot + kSlots <= kWidth && 2 * kNouns <= kWidth);
constexpr float kMark = 1.5f;  // larger ones settle on a cue too early
constexpr int64_t kBatch = 64;
constexpr int64_t kTested = 2048;
constexpr int64_t kHeadCounts[] = {1, 2, 4};

struct Sentence {
  int first = 0, second = 0;  // nouns of two kinds
  int first_slot = 0, second_slot = 4;
  bool fits_first = true;  // the last word fits the first noun

  int meant() const { return fits_first ? first : second; }
};

Sentence Speak(Rng& rng) {
  Sentence s;
  const int64_t kind = rng.Between(0, kKinds - 1);
  const int64_t other = (kind + rng.Between(1, kKinds - 1)) % kKinds;
  auto noun = [&](int64_t of) {
    return static_cast<int>(of * kNounsEach + rng.Between(0, kNounsEach - 1));
  };
  s.first = noun(kind);
  s.second = noun(other);
  s.first_slot = static_cast<int>(rng.Between(0, kSlots - 2));
  s.second_slot = static_cast<int>(rng.Between(s.first_slot + 1, kSlots - 1));
  s.fits_first = rng.Below(2) == 0;
  return s;
}

// Writes the words, and for each noun column whether it is near, or meant.
void Write(const Sentence& s, int64_t b, ToyBatch& batch) {
  float* words = batch.source.As<float>() + b * kSlots * kWidth;
  int filler = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    float* word = words + slot * kWidth;
    word[kSlot + slot] = kMark;
    if (slot == s.first_slot) {
      word[s.first] = kMark;
    } else if (slot == s.second_slot) {
      word[s.second] = kMark;
    } else {
      word[kFiller + filler++] = kMark;
    }
  }
  batch.x.As<float>()[b * kWidth + kLast + s.meant() / kNounsEach] = kMark;
  float* target = batch.target.As<float>() + b * 2 * kNouns;
  target[s.second] = 1;
  target[kNouns + s.meant()] = 1;
}

ToyBatch WriteAll(const std::vector<Sentence>& sentences) {
  const int64_t count = static_cast<int64_t>(sentences.size());
  ToyBatch batch{Tensor(DType::kF32, {count, 1, kWidth}),
                 Tensor(DType::kF32, {count, kSlots, kWidth}),
                 Tensor(DType::kF32, {count, 1, 2 * kNouns})};
  for (int64_t b = 0; b < count; ++b) Write(sentences[b], b, batch);
  return batch;
}

struct Named {
  double near = 0, meant = 0;  // shares of the sentences
  // Where each head looks from "tasty" in the claim's sentence, [heads, slots].
  std::vector<double> rows;

  double worse() const { return std::min(near, meant); }
};

// On sentences whose cues disagree.
Named Test(Context& context, const MultiHeadAttention& module, Rng& rng) {
  std::vector<Sentence> sentences(kTested);
  for (Sentence& s : sentences) {
    s = Speak(rng);
    s.fits_first = true;
  }
  const Tensor out = ToyOutput(context, module, WriteAll(sentences));
  Named named;
  for (int64_t b = 0; b < kTested; ++b) {
    const float* row = out.As<float>() + b * 2 * kNouns;
    auto best = [](const float* nouns) {
      return std::max_element(nouns, nouns + kNouns) - nouns;
    };
    named.near += best(row) == sentences[b].second;
    named.meant += best(row + kNouns) == sentences[b].first;
  }
  named.near /= kTested;
  named.meant /= kTested;
  return named;
}

std::vector<double> LookFromTasty(Context& context,
                                  const MultiHeadAttention& module) {
  const ToyBatch batch =
      WriteAll({{.first = 0, .second = kNounsEach, .fits_first = true}});
  std::vector<double> rows;
  for (int64_t h = 0; h < module.config().heads; ++h) {
    const Tensor row = module.Weights(context, h, batch.Input());
    rows.insert(rows.end(), row.As<float>(), row.As<float>() + kSlots);
  }
  return rows;
}

Named Learn(Context& context, int64_t heads, uint64_t seed, int64_t steps,
            StudyClock& clock) {
  MultiHeadAttention module({.d_model = kWidth, .heads = heads}, seed);
  ToyTraining how;
  how.steps = steps;
  how.rate = 0.01;
  how.seed = seed;
  TrainToy(
      context, module,
      [](Rng& rng) {
        std::vector<Sentence> sentences(kBatch);
        for (Sentence& s : sentences) s = Speak(rng);
        return WriteAll(sentences);
      },
      how, clock);
  Rng fresh(seed, 6);
  Named named = Test(context, module, fresh);
  named.rows = LookFromTasty(context, module);
  return named;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 2500, 8000);
  StudyClock clock(request, "tasty",
                   static_cast<int64_t>(3 * result.seeds.size()) * steps);
  StudyTable table{"Sentences whose cues disagree: share named right",
                   {"heads", "near noun", "meant noun", "worse of the two"},
                   {}};
  HeatMap map{"Where the heads look from \"tasty\", seed 1",
              {},
              {"Apple", "released", "a", "new", "phone", "because", "it", "is"},
              {}};
  const std::vector<std::vector<Named>> runs =
      RunCases(context, std::size(kHeadCounts), result.seeds,
               [&](Context& own, size_t which, uint64_t seed) {
                 return Learn(own, kHeadCounts[which], seed, steps, clock);
               });
  for (size_t i = 0; i < std::size(kHeadCounts); ++i) {
    const int64_t heads = kHeadCounts[i];
    std::vector<double> near, meant, worse;
    for (const Named& named : runs[i]) {
      near.push_back(named.near);
      meant.push_back(named.meant);
      worse.push_back(named.worse());
    }
    for (int64_t h = 0; h < heads; ++h) {
      map.rows.push_back(
          heads == 1 ? "one head" : fmt::format("head {} of {}", h + 1, heads));
    }
    const std::vector<double>& rows = runs[i][0].rows;
    map.values.insert(map.values.end(), rows.begin(), rows.end());
    table.rows.push_back({fmt::format("{}", heads),
                          ShowInterval(OverSeeds(near, kShare)),
                          ShowInterval(OverSeeds(meant, kShare)),
                          ShowInterval(OverSeeds(worse, kShare))});
    const std::string at =
        fmt::format("{} head{}: worse cue named", heads, heads > 1 ? "s" : "");
    if (heads == 1) {
      result.AtMost(at, OverSeeds(worse, kShare), 0.6);
      result.Report("1 head: near noun named", OverSeeds(near, kShare));
      result.Report("1 head: meant noun named", OverSeeds(meant, kShare));
    } else {
      result.AtLeast(at, OverSeeds(worse, kShare), 0.95);
    }
  }
  result.pictures.push_back(std::move(map));
  result.tables.push_back(std::move(table));
  return result;
}

constexpr StudyChange kHistory[] = {
    {.first = "features of position and kind of size 3, 4000 steps of a quick "
              "run: two heads named the worse noun in too few sentences, "
              "since they settled on a cue too early",
     .changed = "features of size 1.5, 2500 steps of a quick run; five fresh "
                "seeds",
     .why = "the task should show what two heads can do, not how they start",
     .commit = "Study symmetry and redundancy of heads"},
};

}  // namespace
}  // namespace tasty_study

const Study kTastyStudy = {
    .name = "tasty",
    .claim =
        "Where the near cue and the meaning cue disagree, one head picks one; "
        "two heads keep both.",
    .expectation =
        "one head names the worse of the two nouns in ≤ 60 % of the "
        "sentences, two heads each in ≥ 95 %",
    .kind = StudyKind::kHypothesis,
    .run = tasty_study::Run,
    .trained = true,
    .history = tasty_study::kHistory,
    .fresh_seeds = kFreshSeeds<281>};

}  // namespace headwise
