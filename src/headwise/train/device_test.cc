// Gradients of a training step on a GPU against those of the host, for
// everything that chooses heads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/dist/device_group.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/train/material.h"
#include "headwise/train/trainer.h"
#include "headwise/train/training_run.h"

namespace headwise::device_test {
namespace {

struct Gradients {
  double loss = 0;
  double penalty = 0;
  std::map<std::string, std::vector<float>> of;  // by parameter
};

double Largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values)
    most = std::max(most, std::abs(double{value}));
  return most;
}

// Of the angle between two gradients.
double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return aa == 0 && bb == 0 ? 1 : ab / std::sqrt(aa * bb);
}

class DeviceTraining : public TrainingRun {
 protected:
  void SetUp() override {
    try {
      gpu_ = std::make_unique<Context>(
          ContextOptions{.threads = 1, .device = Device::Cuda()});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << "no GPU here";
    }
    TrainingRun::SetUp();
    std::filesystem::create_directory(folder_ / "device");
  }

  // Two sequences of 32 tokens, four heads, everything that is drawn drawn.
  TrainConfig Drawn(const std::string& kind, double head_dropout) const {
    TrainConfig config = Config("device");
    config.model["num_attention_heads"] = 4;
    config.model["num_key_value_heads"] = 2;
    config.heads = Json::parse(kind);
    config.head_dropout = head_dropout;
    config.sequence = 32;
    config.dropout = 0.1;
    return config;
  }
  TrainConfig Gpt2() const {
    TrainConfig config = Config("device");
    config.model = {{"model_type", "gpt2"}, {"n_embd", 32},
                    {"n_layer", 2},         {"n_head", 4},
                    {"n_positions", 64},    {"tie_word_embeddings", true}};
    config.sequence = 32;
    config.dropout = 0;
    return config;
  }

  static Gradients GradientsOf(Context& context, DType type,
                               const TrainConfig& config) {
    const Material material = OpenMaterial(context, type, config, {});
    const Trainer trainer(context, config, *material.model, *material.store);
    material.store->ClearGradients(context);
    Gradients found;
    GateTraining gates;
    gates.head_dropout = static_cast<float>(config.head_dropout);
    gates.gate_penalty = gates.balance = gates.span_penalty = 0.1f;
    gates.seed = config.seed;
    gates.loss = &found.penalty;
    const TrainBatch batch = material.train->Make(0, config.micro_batch);
    const float scale = 1.0f / static_cast<float>(batch.CountTargets());
    found.loss = trainer.Differentiate(
        batch, scale, {static_cast<float>(config.dropout), config.seed, 0},
        nullptr, &gates);
    for (const auto& [name, entry] : material.store->entries()) {
      if (!entry.gradient) continue;
      found.of[name] = ToVector<float>(context, entry.gradient);
    }
    return found;
  }

  void ExpectAlike(const TrainConfig& config) {
    Context host({2, ""});
    const Gradients truth = GradientsOf(host, DType::kF32, config);
    const Gradients found = GradientsOf(*gpu_, DType::kF32, config);
    EXPECT_NEAR(found.loss, truth.loss, 1e-4 * truth.loss);
    EXPECT_NEAR(found.penalty, truth.penalty, 1e-4);
    ASSERT_EQ(found.of.size(), truth.of.size());
    for (const auto& [name, wanted] : truth.of) {
      const std::vector<float>& had = found.of.at(name);
      const double tolerance = 5e-4 * Largest(wanted) + 1e-6;
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(had[i], wanted[i], tolerance) << name << " " << i;
      }
    }
    const Gradients again = GradientsOf(*gpu_, DType::kF32, config);
    EXPECT_EQ(found.of, again.of);  // bit by bit
  }

  std::unique_ptr<Context> gpu_;
};

TEST_F(DeviceTraining, GradientsOfGatesMixturesSpansAndDropoutAreTheHosts) {
  for (const char* kind :
       {R"({})", R"({"gates": "hard_concrete"})",
        R"({"gates": "mixture", "shared_heads": 1, "active_heads": 2})",
        R"({"gates": "mixture", "active_heads": 3})", R"({"span_ramp": 4})"}) {
    for (const double head_dropout : {0.0, 0.3}) {
      SCOPED_TRACE(std::string(kind) + " " + std::to_string(head_dropout));
      ExpectAlike(Drawn(kind, head_dropout));
    }
  }
}

TEST_F(DeviceTraining, GradientsOfBiasesAndGeluAreTheHosts) {
  ExpectAlike(Gpt2());
}

// Where products do the activation by the way.
TEST_F(DeviceTraining, HalvesPointWhereF32Does) {
  Context host({2, ""});
  for (const TrainConfig& config :
       {Gpt2(), Drawn(R"({})", 0.3), Drawn(R"({"gates": "hard_concrete"})", 0),
        // All heads: near ties would choose others.
        Drawn(R"({"gates": "mixture", "shared_heads": 1, "active_heads": 4})",
              0),
        Drawn(R"({"span_ramp": 4})", 0)}) {
    const Gradients truth = GradientsOf(host, DType::kF32, config);
    const Gradients found = GradientsOf(*gpu_, DType::kBF16, config);
    EXPECT_NEAR(found.loss, truth.loss, 2e-2 * truth.loss);
    for (const auto& [name, wanted] : truth.of) {
      if (Largest(wanted) < 1e-5) continue;  // lost in the rounding
      EXPECT_GT(Cosine(found.of.at(name), wanted), 0.98) << name;
    }
    EXPECT_EQ(found.of, GradientsOf(*gpu_, DType::kBF16, config).of);
  }
}

// A run of twelve steps whose pieces are done on different devices.
TEST_F(DeviceTraining, ACheckpointOfEitherDeviceResumesOnTheOther) {
  const auto piece = [](Context& context, DType type, const TrainConfig& config,
                        int64_t steps) {
    std::stop_source stop;
    RunOptions options;
    options.resume = true;
    options.type = type;
    options.stop = stop.get_token();
    options.on_step = [&](const StepView& view) {
      if (view.report.step + 1 == view.steps_before + steps) {
        stop.request_stop();
      }
    };
    return RunTraining(context, config, options).record;
  };
  Context host({2, ""});
  TrainConfig config = Config("whole");
  config.rate = 0.002;
  const TrainingRecord whole = piece(host, DType::kF32, config, config.steps);
  struct Way {
    const char* out;
    bool begins_there;
    DType type;
    double tolerance;
  };
  for (const Way& way : {Way{"there_here", true, DType::kF32, 1e-3},
                         Way{"here_there", false, DType::kF32, 1e-3},
                         // In a half losses are those of rounded weights.
                         Way{"half_here", true, DType::kBF16, 0.1},
                         Way{"here_half", false, DType::kBF16, 0.1}}) {
    config.out = folder_ / way.out;
    const auto run = [&](bool there, int64_t steps) {
      return there ? piece(*gpu_, way.type, config, steps)
                   : piece(host, DType::kF32, config, steps);
    };
    run(way.begins_there, 5);
    run(!way.begins_there, 4);
    const TrainingRecord record = run(way.begins_there, config.steps);
    ASSERT_EQ(record.losses.size(), whole.losses.size()) << way.out;
    for (size_t step = 0; step < whole.losses.size(); ++step) {
      EXPECT_NEAR(record.losses[step], whole.losses[step], way.tolerance)
          << way.out << ", step " << step;
    }
  }
}

// A few steps, with the optimizer's own.
TEST_F(DeviceTraining, StepsLoseAsTheHostsDo) {
  for (const char* kind :
       {R"({})", R"({"gates": "hard_concrete"})",
        R"({"assign": [{"layer": 1, "head": 2, "relation": "previous"},
                       {"layer": 0, "head": 3, "relation": "induction"}]})"}) {
    TrainConfig config = Drawn(kind, 0.3);
    config.rate = 0.002;
    Context host({2, ""});
    std::vector<double> losses[2];
    for (Context* context : {&host, gpu_.get()}) {
      const Material material = OpenMaterial(*context, DType::kF32, config, {});
      Trainer trainer(*context, config, *material.model, *material.store);
      for (int step = 0; step < 5; ++step) {
        const StepReport report = trainer.Step(*material.train);
        losses[context != &host].push_back(report.loss + report.assigned);
      }
    }
    for (int step = 0; step < 5; ++step) {
      EXPECT_NEAR(losses[1][step], losses[0][step], 1e-3) << step;
    }
  }
}

// A sum over one rank is what it is of: one GPU shows that NCCL is joined and
// that nothing is lost on the way, and no more.
TEST_F(DeviceTraining, NcclOfOneRankTrainsAsTheTreeDoes) {
  if (!dist::HasNccl()) GTEST_SKIP() << "a build without NCCL";
  TrainConfig config = Gpt2();
  std::vector<double> losses[2];
  for (const auto reduce :
       {GradientReduction::kTree, GradientReduction::kNccl}) {
    config.reduce = reduce;
    const Material material = OpenMaterial(*gpu_, DType::kF32, config, {});
    Trainer trainer(*gpu_, config, *material.model, *material.store);
    for (int step = 0; step < 5; ++step) {
      losses[static_cast<int>(reduce)].push_back(
          trainer.Step(*material.train).loss);
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace headwise::device_test
