// Claim: one head has three limits: one matching geometry (two rules of
//   relevance at once), one coordinate system (several targets compete in one
//   simplex), one content channel (what is read goes with where it is read).
// Expectation: on each task one head of full width returns at most half (of
//   three targets a third) and enough heads return all: R² ≤ .6, .45, .6 with
//   one head; ≥ .95 with 2, 3, 2 heads. This is of heads whose scores read
//   marks and whose values read contents. A head whose scores may read contents
//   too can cheat: a slight change of its distribution tells of a content, and
//   values that read marks tell whose it was. That is reported besides.
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "headwise/study/support/toy.h"

namespace headwise {
namespace {

constexpr int64_t kWidth = 24;  // divisible by 1 … 4 heads
constexpr int64_t kWords = 6;
constexpr int64_t kBatch = 64;
constexpr int64_t kTested = 2048;
constexpr int64_t kMostHeads = 4;
constexpr float kMark = 3;  // of a feature that is set

// One example's rows: query [24], words [6, 24], target.
struct Example {
  float* query;
  float* words;
  float* target;

  float* Word(int64_t j) const { return words + j * kWidth; }
};

std::vector<int64_t> Shuffled(Rng& rng) {
  std::vector<int64_t> order(kWords);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = kWords - 1; i > 0; --i) {
    std::swap(order[i], order[rng.Between(0, i)]);
  }
  return order;
}

// Contents stand in the last two columns, marks before.
constexpr int64_t kContents = 2;
void SetContents(const Example& e, Rng& rng) {
  for (int64_t j = 0; j < kWords; ++j) {
    for (int64_t c = kWidth - kContents; c < kWidth; ++c) {
      e.Word(j)[c] = static_cast<float>(rng.Normal());
    }
  }
}
float Content(const Example& e, int64_t word, int64_t channel = 0) {
  return e.Word(word)[kWidth - kContents + channel];
}

// Keys read no content, values nothing else: of weights or their gradients.
void SeparateMarks(MultiHeadAttentionParameters& parameters) {
  const int64_t marks = (kWidth - kContents) * kWidth;
  std::fill_n(parameters.w_k.As<float>() + marks, kContents * kWidth, 0.0f);
  std::fill_n(parameters.w_v.As<float>(), marks, 0.0f);
}

// Geometry: every word has a colour and a shape, all different; the query asks
// for the content of the word of one colour and that of the word of one shape.
void TwoRules(const Example& e, Rng& rng) {
  const std::vector<int64_t> colours = Shuffled(rng), shapes = Shuffled(rng);
  SetContents(e, rng);
  for (int64_t j = 0; j < kWords; ++j) {
    e.Word(j)[colours[j]] = kMark;
    e.Word(j)[kWords + shapes[j]] = kMark;
  }
  const int64_t first = rng.Between(0, kWords - 1);
  const int64_t second = (first + rng.Between(1, kWords - 1)) % kWords;
  e.query[colours[first]] = kMark;
  e.query[kWords + shapes[second]] = kMark;
  e.target[0] = Content(e, first);
  e.target[1] = Content(e, second);
}

// Coordinates: subject, referent and modifier stand anywhere among the words;
// one query asks for all three contents.
void ThreeTargets(const Example& e, Rng& rng) {
  const std::vector<int64_t> order = Shuffled(rng);
  SetContents(e, rng);
  e.query[0] = kMark;
  for (int64_t role = 0; role < 3; ++role) {
    e.Word(order[role])[1 + role] = kMark;
    e.target[role] = Content(e, order[role]);
  }
}

// Content: channel a of the word marked p, channel b of the word marked q.
void TwoContents(const Example& e, Rng& rng) {
  const std::vector<int64_t> order = Shuffled(rng);
  SetContents(e, rng);
  e.query[0] = kMark;
  for (int64_t mark = 0; mark < 2; ++mark) {
    e.Word(order[mark])[1 + mark] = kMark;
    e.target[mark] = Content(e, order[mark], mark);
  }
}

struct Limit {
  const char* name;
  void (*make)(const Example& e, Rng& rng);
  int64_t targets;
  int64_t enough;  // heads
  double most;     // R² with one head
};
constexpr Limit kLimits[] = {
    {"geometry: two rules of relevance", TwoRules, 2, 2, 0.6},
    {"coordinates: three targets", ThreeTargets, 3, 3, 0.45},
    {"content: a from p, b from q", TwoContents, 2, 2, 0.6}};

ToyBatch MakeExamples(const Limit& limit, int64_t count, Rng& rng) {
  ToyBatch batch{Tensor(DType::kF32, {count, 1, kWidth}),
                 Tensor(DType::kF32, {count, kWords, kWidth}),
                 Tensor(DType::kF32, {count, 1, limit.targets})};
  for (int64_t b = 0; b < count; ++b) {
    limit.make({batch.x.As<float>() + b * kWidth,
                batch.source.As<float>() + b * kWords * kWidth,
                batch.target.As<float>() + b * limit.targets},
               rng);
  }
  return batch;
}

int64_t Steps(const StudyRequest& request) {
  return StudySteps(request, 1500, 5000);
}

double Learn(Context& context, const Limit& limit, int64_t heads, bool separate,
             uint64_t seed, const StudyRequest& request, StudyClock& clock) {
  MultiHeadAttention module({.d_model = kWidth, .heads = heads}, seed);
  ToyTraining how;
  how.steps = Steps(request);
  how.rate = 0.01;
  how.seed = seed;
  if (separate) {
    SeparateMarks(module.parameters());
    how.freeze = SeparateMarks;
  }
  TrainToy(
      context, module,
      [&](Rng& rng) { return MakeExamples(limit, kBatch, rng); }, how, clock);
  Rng fresh(seed, 4);
  const std::vector<double> shares =
      ExplainedShares(context, module, MakeExamples(limit, kTested, fresh));
  return std::accumulate(shares.begin(), shares.end(), 0.0) /
         static_cast<double>(shares.size());
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t runs =
      3 * (kMostHeads + 1) * static_cast<int64_t>(result.seeds.size());
  StudyClock clock(request, "limits", runs * Steps(request));
  // Of every limit: one head, two, three, four; last one free head.
  constexpr size_t kRuns = kMostHeads + 1;
  const std::vector<std::vector<double>> shares = RunCases(
      context, std::size(kLimits) * kRuns, result.seeds,
      [&](Context& own, size_t which, uint64_t seed) {
        const size_t run = which % kRuns;
        const bool separate = run < kMostHeads;
        const int64_t heads = separate ? static_cast<int64_t>(run) + 1 : 1;
        return Learn(own, kLimits[which / kRuns], heads, separate, seed,
                     request, clock);
      });
  LinePlot plot{"What one layer returns (mean R²), by heads",
                "heads",
                "mean R²",
                false,
                false,
                {}};
  StudyTable table{
      "Mean R², by heads (width 24 in all); free: scores and "
      "values read all",
      {"task", "1", "2", "3", "4", "1, free"},
      {}};
  for (size_t i = 0; i < std::size(kLimits); ++i) {
    const Limit& limit = kLimits[i];
    Series series{limit.name, {}, {}};
    std::vector<std::string> row = {limit.name};
    for (int64_t heads = 1; heads <= kMostHeads; ++heads) {
      const Interval mean = OverSeeds(shares[i * kRuns + heads - 1]);
      series.x.push_back(static_cast<double>(heads));
      series.y.push_back(mean.value);
      row.push_back(ShowInterval(mean));
      const std::string at = fmt::format("{}, {} head{}: R²", limit.name, heads,
                                         heads == 1 ? "" : "s");
      if (heads == 1) result.AtMost(at, mean, limit.most);
      if (heads == limit.enough) result.AtLeast(at, mean, 0.95);
    }
    const Interval free = OverSeeds(shares[i * kRuns + kMostHeads]);
    row.push_back(ShowInterval(free));
    result.Report(fmt::format("{}, 1 free head: R²", limit.name), free);
    plot.series.push_back(std::move(series));
    table.rows.push_back(std::move(row));
  }
  result.pictures.push_back(std::move(plot));
  result.tables.push_back(std::move(table));
  result.remark =
      "One free head is not bound by its one distribution: where its scores "
      "read contents, a slight change of the distribution carries them.";
  return result;
}

}  // namespace

const Study kLimitsStudy = {
    .name = "limits",
    .claim =
        "One head has one geometry, one coordinate system and one content "
        "channel; several heads have several.",
    .expectation =
        "on each of three tasks one head of full width fails and "
        "enough heads solve it",
    .kind = StudyKind::kHypothesis,
    .run = Run,
    .trained = true};

}  // namespace headwise
