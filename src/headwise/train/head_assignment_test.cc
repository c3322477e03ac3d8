// Heads that are told what to attend to.
#include "headwise/train/head_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/model/model_hash.h"
#include "headwise/tensor/slice.h"
#include "headwise/train/material.h"
#include "headwise/train/trainer.h"
#include "headwise/train/training_run.h"

namespace headwise::head_assignment_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FindPairs, TellsEachRelationWithinItsSequence) {
  const std::vector<int32_t> ids = {5, 6, 5, 7, 6, 9, 9};
  const std::vector<int32_t> starts = {0, 5, 7};
  const auto find = [&](HeadRelation relation, AttentionMask mask) {
    return FindPairs(relation, ids, starts, mask);
  };
  const AttentionMask all = AttentionMask::None();
  const AttentionMask causal = AttentionMask::Causal();
  RelationPairs pairs = find(HeadRelation::kPrevious, causal);
  EXPECT_THAT(pairs.queries, ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(pairs.keys, ElementsAre(0, 1, 2, 3, 5));
  pairs = find(HeadRelation::kNext, all);
  EXPECT_THAT(pairs.queries, ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(pairs.keys, ElementsAre(1, 2, 3, 4, 6));
  pairs = find(HeadRelation::kFirst, causal);
  EXPECT_THAT(pairs.keys, ElementsAre(0, 0, 0, 0, 5));
  pairs = find(HeadRelation::kLast, all);
  EXPECT_THAT(pairs.keys, ElementsAre(4, 4, 4, 4, 6));
  pairs = find(HeadRelation::kSameToken, all);
  EXPECT_THAT(pairs.queries, ElementsAre(0, 1, 2, 4, 5, 6));
  EXPECT_THAT(pairs.keys, ElementsAre(2, 4, 0, 1, 6, 5));
  pairs = find(HeadRelation::kSameToken, causal);
  EXPECT_THAT(pairs.queries, ElementsAre(2, 4, 6));
  EXPECT_THAT(pairs.keys, ElementsAre(0, 1, 5));
  pairs = find(HeadRelation::kInduction, causal);
  EXPECT_THAT(pairs.queries, ElementsAre(2, 4, 6));
  EXPECT_THAT(pairs.keys, ElementsAre(1, 2, 6));
  pairs = find(HeadRelation::kFirst, AttentionMask::SlidingWindow(2));
  EXPECT_THAT(pairs.queries, ElementsAre(1, 6));
  pairs = find(HeadRelation::kFirst, AttentionMask::SlidingWindow(2, 0, 1));
  EXPECT_THAT(pairs.queries, ElementsAre(1, 2, 3, 4, 6));
}

// Σ −ln A[queries, keys] of one head, in double, from its formula.
struct Formula {
  AttentionMask mask;
  double slope;
  std::vector<int32_t> starts;
  const RelationPairs& pairs;
  int64_t dim;

  double Loss(const std::vector<double>& q,
              const std::vector<double>& k) const {
    double loss = 0;
    for (size_t p = 0; p < pairs.queries.size(); ++p) {
      const int64_t i = pairs.queries[p], j = pairs.keys[p];
      size_t s = 0;
      while (starts[s + 1] <= i) ++s;
      double sum = 0;
      for (int64_t other = starts[s]; other < starts[s + 1]; ++other) {
        if (other > i && mask.after == 0) continue;
        sum += std::exp(Score(q, k, i, other));
      }
      loss += std::log(sum) - Score(q, k, i, j);
    }
    return loss;
  }
  double Score(const std::vector<double>& q, const std::vector<double>& k,
               int64_t i, int64_t j) const {
    double dot = 0;
    for (int64_t c = 0; c < dim; ++c) dot += q[i * dim + c] * k[j * dim + c];
    return dot / std::sqrt(static_cast<double>(dim)) -
           slope * static_cast<double>(std::abs(i - j));
  }
};

std::vector<double> HeadOf(const Tensor& all, int64_t head) {
  const int64_t rows = all.shape(1), heads = all.shape(2), dim = all.shape(3);
  std::vector<double> own;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t c = 0; c < dim; ++c) {
      own.push_back(all.As<float>()[(t * heads + head) * dim + c]);
    }
  }
  return own;
}

// dq, dk: of ones before the call.
void ExpectDifferences(const Formula& formula, std::vector<double> q,
                       std::vector<double> k, const std::vector<double>& dq,
                       const std::vector<double>& dk, double factor) {
  for (auto* values : {&q, &k}) {
    const std::vector<double>& gradient = values == &q ? dq : dk;
    for (size_t i = 0; i < values->size(); ++i) {
      const double kept = (*values)[i], h = 1e-5;
      (*values)[i] = kept + h;
      const double above = formula.Loss(q, k);
      (*values)[i] = kept - h;
      const double below = formula.Loss(q, k);
      (*values)[i] = kept;
      EXPECT_NEAR(gradient[i], 1 + factor * (above - below) / (2 * h), 2e-5)
          << (values == &q ? "q " : "k ") << i;
    }
  }
}

TEST(AssignmentGradient, IsTheDifferenceOfTheLoss) {
  const std::vector<int32_t> ids = {1, 2, 1, 3, 2, 1, 4, 4, 1, 4};
  const std::vector<int32_t> starts = {0, 6, 10};
  const int64_t rows = 10, heads = 4, groups = 2, dim = 6, head = 3;
  Rng rng(17);
  for (const bool causal : {true, false}) {
    for (const bool alibi : {true, false}) {
      SCOPED_TRACE(std::string(causal ? "causal" : "all") +
                   (alibi ? " alibi" : ""));
      const auto relation =
          causal ? HeadRelation::kInduction : HeadRelation::kSameToken;
      const AttentionMask mask =
          causal ? AttentionMask::Causal() : AttentionMask::None();
      const RelationPairs pairs = FindPairs(relation, ids, starts, mask);
      Tensor q(DType::kF32, {1, rows, heads, dim}),
          k(DType::kF32, {1, rows, groups, dim}),
          dq(DType::kF32, {1, rows, heads, dim}),
          dk(DType::kF32, {1, rows, groups, dim});
      for (Tensor* t : {&q, &k}) {
        for (int64_t i = 0; i < t->size(); ++i) {
          t->As<float>()[i] = static_cast<float>(rng.Normal());
        }
      }
      for (Tensor* t : {&dq, &dk}) {
        std::fill_n(t->As<float>(), t->size(), 1.0f);
      }
      const std::vector<float> slopes = {.1f, .2f, .3f, .25f};
      AttentionProblem problem;
      problem.batch = 2;
      problem.heads = heads;
      problem.kv_heads = groups;
      problem.query_len = problem.key_len = 6;
      problem.head_dim = dim;
      problem.mask = mask;
      problem.packed = true;
      AttentionArgs args;
      args.q = q.view();
      args.k = k.view();
      args.query_starts = args.key_starts = ViewOf(starts);
      if (alibi) {
        problem.bias = AttentionBias::kAlibi;
        args.alibi_slopes = ViewOf(slopes);
      }
      AttentionGrads grads;
      grads.dq = dq.view();
      grads.dk = dk.view();
      Context context({2, ""});
      const double factor = 0.7;
      const double loss = AddAssignmentGradient(context, problem, args, grads,
                                                head, pairs, factor);
      const Formula formula{mask, alibi ? 0.25 : 0.0, starts, pairs, dim};
      const std::vector<double> own_q = HeadOf(q, head), own_k = HeadOf(k, 1);
      EXPECT_NEAR(loss, formula.Loss(own_q, own_k), 1e-4);
      ExpectDifferences(formula, own_q, own_k, HeadOf(dq, head), HeadOf(dk, 1),
                        factor);
      for (const int64_t other : {0, 1, 2}) {
        for (const double value : HeadOf(dq, other)) EXPECT_EQ(value, 1);
      }
      for (const double value : HeadOf(dk, 0)) EXPECT_EQ(value, 1);
    }
  }
}

class AssignedRun : public TrainingRun {
 protected:
  TrainConfig Assigned(const std::string& out, const Json& assign) const {
    TrainConfig config = Config(out);
    config.model["num_attention_heads"] = 4;
    config.model["num_key_value_heads"] = 2;
    config.heads = {{"assign", assign}};
    return config;
  }
  static Json Previous() {
    return Json::parse(
        R"([{"layer": 1, "head": 2, "relation": "previous", "weight": 0.5},
            {"layer": 0, "head": 1, "relation": "first"}])");
  }
};

// Through the whole model, to a weight below the assigned layer.
TEST_F(AssignedRun, GradientsOfParametersAreDifferencesOfBothLosses) {
  const TrainConfig config = Assigned("differences", Previous());
  std::filesystem::create_directories(config.out);
  Context context({2, ""});
  const Material material = OpenMaterial(context, DType::kF32, config, {});
  const Trainer trainer(context, config, *material.model, *material.store);
  const AssignedHeads heads(ReadAssignments(config.heads, "test"),
                            *material.model);
  const TrainBatch batch = material.train->Make(0, 2);
  std::vector<RelationPairs> pairs;
  for (size_t i = 0; i < heads.size(); ++i) {
    pairs.push_back(FindPairs(heads[i].relation, batch.ids, batch.batch.starts,
                              heads.mask(i)));
  }
  const std::vector<double> factors = {2, 3};
  // New matrices are so small that every row is even.
  for (auto& [name, entry] : material.store->entries()) {
    if (entry.value.rank != 2) continue;
    float* data = static_cast<float*>(entry.value.data);
    for (int64_t i = 0; i < entry.value.size(); ++i) data[i] *= 8;
  }
  const auto loss = [&] {
    material.store->ClearGradients(context);
    AssignmentHooks hooks(context, heads, pairs, factors);
    return trainer.Differentiate(batch, 1, {}, &hooks) + hooks.loss();
  };
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight",
                           "model.layers.0.self_attn.k_proj.weight",
                           "model.layers.1.self_attn.q_proj.weight",
                           "model.layers.1.self_attn.k_proj.weight",
                           "model.layers.0.mlp.up_proj.weight"}) {
    auto& entry = material.store->entries().at(name);
    for (const int64_t i : {3, 90}) {
      float& w = static_cast<float*>(entry.value.data)[i];
      const float kept = w;
      const auto at = [&](double step) {
        w = kept + static_cast<float>(step);
        return loss();
      };
      const double h = 0.02;
      const double slope =
          (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      at(0);
      EXPECT_NEAR(static_cast<float*>(entry.gradient.data)[i], slope,
                  5e-3 * std::max(1.0, std::abs(slope)))
          << name << " " << i;
    }
  }
}

TEST_F(AssignedRun, LearnsWhatItIsTold) {
  TrainConfig config = Assigned("told", Previous());
  config.steps = 60;
  config.dropout = 0;
  config.repeat_share = 0;
  std::vector<double> assigned;
  RunOptions options;
  options.on_step = [&](const StepView& view) {
    assigned.push_back(view.report.assigned);
  };
  Train(config, 2, options);
  EXPECT_GT(assigned.front(), 2);
  EXPECT_LT(assigned.back(), 0.3);
  // It says what the run was asked, not what the model is.
  const Json model =
      ReadJson(std::filesystem::path(config.out) / "config.json");
  EXPECT_EQ(model.dump().find("assign"), std::string::npos);
}

TEST_F(AssignedRun, IsTheSameAtAnyThreadCountAndResumesBitForBit) {
  const TrainConfig whole = Assigned("whole", Previous());
  const TrainingRecord record = Train(whole, 1);
  EXPECT_EQ(Train(Assigned("three", Previous()), 3).losses, record.losses);
  const TrainConfig pieces = Assigned("pieces", Previous());
  TrainPiece(pieces, 5);
  EXPECT_EQ(TrainPiece(pieces, 100).losses, record.losses);
  EXPECT_EQ(ModelHash(pieces.out), ModelHash(whole.out));
  TrainConfig free = Assigned("free", Previous());
  free.heads = Json::object();
  EXPECT_NE(Train(free).losses, record.losses);
}

TEST_F(AssignedRun, NamesWhatCannotBeAssigned) {
  const auto error = [&](const char* json) {
    return ErrorOf(Assigned("bad", Json::parse(json)));
  };
  EXPECT_THAT(error(R"({"layer": 0})"), HasSubstr("a list"));
  EXPECT_THAT(error(R"([{"layer": 0, "head": 0}])"), HasSubstr("relation"));
  EXPECT_THAT(error(R"([{"layer": 0, "head": 0, "relation": "prev"}])"),
              HasSubstr("previous"));
  EXPECT_THAT(error(R"([{"layer": 2, "head": 0, "relation": "first"}])"),
              HasSubstr("a layer from 0 to 1"));
  EXPECT_THAT(error(R"([{"layer": 0, "head": 4, "relation": "first"}])"),
              HasSubstr("a head from 0 to 3"));
  EXPECT_THAT(error(R"([{"layer": 0, "head": 1, "relation": "next"}])"),
              HasSubstr("causal"));
  EXPECT_THAT(error(R"([{"layer": 0, "head": 1, "relation": "first",
                         "weight": 0}])"),
              HasSubstr("weight above 0"));
}

}  // namespace
}  // namespace headwise::head_assignment_test
