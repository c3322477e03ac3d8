// Parts that do not learn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "headwise/format/safetensors.h"
#include "headwise/model/model_hash.h"
#include "headwise/train/material.h"
#include "headwise/train/trainer.h"
#include "headwise/train/training_run.h"

namespace headwise::freeze_test {
namespace {

using testing::HasSubstr;
using testing::Not;

using Bits = std::map<std::string, std::vector<float>>;

class FrozenRun : public TrainingRun {
 protected:
  // Bottom up: the embeddings, a whole layer, half a layer.
  static std::vector<std::string> Bottom() {
    return {"embedding", "layer.0", "layer.1.attention"};
  }
  TrainConfig Frozen(const std::string& out,
                     std::vector<std::string> parts) const {
    TrainConfig config = Config(out);
    config.model["tie_word_embeddings"] = false;
    config.freeze = std::move(parts);
    return config;
  }

  static Bits Gradients(const TrainConfig& config, bool recompute = false) {
    TrainConfig own = config;
    own.recompute = recompute;
    std::filesystem::create_directories(own.out);
    Context context({2, ""});
    const Material material = OpenMaterial(context, DType::kF32, own, {});
    const Trainer trainer(context, own, *material.model, *material.store);
    material.store->ClearGradients(context);
    const TrainBatch batch = material.train->Make(0, 2);
    trainer.Differentiate(batch, 0.1f, {0.1f, 5, 0}, nullptr);
    Bits gradients;
    for (const auto& [name, entry] : material.store->entries()) {
      if (!entry.gradient) continue;
      const float* data = static_cast<const float*>(entry.gradient.data);
      gradients[name] = {data, data + entry.gradient.size()};
    }
    return gradients;
  }
};

bool IsBottom(const std::string& name) {
  return name.find("embed_tokens") != name.npos ||
         name.find("layers.0.") != name.npos ||
         name.find("layers.1.self_attn") != name.npos ||
         name.find("layers.1.input_layernorm") != name.npos;
}

TEST_F(FrozenRun, GivesWhatLearnsTheGradientsThatItAlwaysHad) {
  const Bits all = Gradients(Frozen("all", {}));
  const Bits some = Gradients(Frozen("some", Bottom()));
  const Bits again = Gradients(Frozen("again", Bottom()), true);
  size_t frozen = 0;
  for (const auto& [name, gradient] : all) {
    if (IsBottom(name)) {
      EXPECT_FALSE(some.contains(name)) << name;
      ++frozen;
      continue;
    }
    ASSERT_TRUE(some.contains(name)) << name;
    EXPECT_EQ(some.at(name), gradient) << name;
    EXPECT_EQ(again.at(name), gradient) << name;
  }
  EXPECT_EQ(frozen + some.size(), all.size());
  EXPECT_GT(frozen, 8);
  // What learns may lie below what does not: gradients pass through.
  const Bits top = Gradients(Frozen("top", {"layer.1", "final", "head"}));
  for (const auto& [name, gradient] : top) {
    EXPECT_EQ(gradient, all.at(name)) << name;
  }
  EXPECT_TRUE(top.contains("model.embed_tokens.weight"));
}

TEST_F(FrozenRun, GradientsAreDifferencesOfTheLoss) {
  const TrainConfig config = Frozen("differences", Bottom());
  std::filesystem::create_directories(config.out);
  Context context({2, ""});
  const Material material = OpenMaterial(context, DType::kF32, config, {});
  const Trainer trainer(context, config, *material.model, *material.store);
  const TrainBatch batch = material.train->Make(0, 2);
  const auto loss = [&] {
    material.store->ClearGradients(context);
    return trainer.Differentiate(batch, 1, {}, nullptr);
  };
  auto& entry =
      material.store->entries().at("model.layers.1.mlp.down_proj.weight");
  for (const int64_t i : {0, 7, 100}) {
    float& w = static_cast<float*>(entry.value.data)[i];
    const float kept = w;
    const float h = 0.05f;
    w = kept + h;
    const double above = loss();
    w = kept - h;
    const double below = loss();
    w = kept;
    loss();
    const double slope = (above - below) / (2 * double{h});
    EXPECT_NEAR(static_cast<float*>(entry.gradient.data)[i], slope,
                1e-2 * std::max(1.0, std::abs(slope)))
        << i;
  }
}

TEST_F(FrozenRun, KeepsNothingForABackwardThatDoesNotCome) {
  const TrainConfig config = Frozen("kept", Bottom());
  std::filesystem::create_directories(config.out);
  Context context({2, ""});
  const Material material = OpenMaterial(context, DType::kF32, config, {});
  const Model& model = *material.model;
  const TrainBatch batch = material.train->Make(0, 2);
  RunHooks nobody;
  for (const bool listens : {false, true}) {
    StackSaved saved;
    StackInput input;
    input.ids = batch.ids;
    input.batch = &batch.batch;
    input.saved = &saved;
    if (listens) input.hooks = &nobody;
    const Temp x(context, DType::kF32,
                 {batch.batch.total(), model.config().width});
    model.Run(context, model.stack(), input, x.view());
    EXPECT_EQ(saved.blocks[0].steps.empty(), !listens);
    ASSERT_FALSE(saved.blocks[1].steps.empty());
    EXPECT_TRUE(static_cast<bool>(saved.blocks[1].steps[0].attention.heads));
  }
}

TEST_F(FrozenRun, LeavesEveryBitAndResumes) {
  const TrainConfig start = Frozen("start", {});
  Train(start);
  const auto config = [&](const std::string& out) {
    TrainConfig own = Frozen(out, Bottom());
    own.start = start.out;
    own.model = Json::object();
    own.seed = 9;
    return own;
  };
  const TrainingRecord whole = Train(config("whole"));
  TrainPiece(config("pieces"), 4);
  EXPECT_EQ(TrainPiece(config("pieces"), 100).losses, whole.losses);
  EXPECT_EQ(ModelHash(config("pieces").out), ModelHash(config("whole").out));
  EXPECT_EQ(Train(config("one"), 1).losses, whole.losses);

  const Safetensors before = Safetensors::Open(start.out);
  const Safetensors after = Safetensors::Open(config("whole").out);
  for (const auto& [name, view] : before.tensors()) {
    const ConstTensorView now = after.Find(name);
    const auto bytes = static_cast<size_t>(view.size()) * sizeof(float);
    EXPECT_EQ(std::memcmp(view.data, now.data, bytes) == 0, IsBottom(name))
        << name;
  }
  EXPECT_EQ(whole.parameters, Train(config("count")).parameters);
  EXPECT_EQ(whole.parameters,
            TrainingRecord::FromFile(std::filesystem::path(start.out) /
                                     "training.json")
                .parameters);
  const Safetensors state = Safetensors::Open(
      *NewestCheckpoint(config("whole").out) / "optimizer.safetensors");
  for (const auto& [name, view] : state.tensors()) {
    EXPECT_FALSE(IsBottom(name)) << name;
  }
}

// Gradients reach an encoder through layers of the decoder that do not learn,
// and stop at a decoder whose encoder does not.
TEST_F(FrozenRun, KnowsBothStacksOfAnEncoderDecoder) {
  const auto config = [&](const std::string& out,
                          std::vector<std::string> parts) {
    TrainConfig own = Frozen(out, std::move(parts));
    own.model = {{"model_type", "marian"},
                 {"d_model", 16},
                 {"encoder_layers", 2},
                 {"decoder_layers", 2},
                 {"encoder_attention_heads", 2},
                 {"decoder_attention_heads", 2},
                 {"encoder_ffn_dim", 24},
                 {"decoder_ffn_dim", 24},
                 {"max_position_embeddings", 64},
                 {"eos_token_id", 2},
                 {"pad_token_id", 3},
                 {"decoder_start_token_id", 3}};
    own.task = TrainTask::kTranslation;
    own.data = {folder_ / "pairs.tsv"};
    return own;
  };
  const Bits all = Gradients(config("all", {}));
  const std::vector<std::vector<std::string>> choices = {
      {"decoder.embedding", "decoder.layer.0-1"},
      {"encoder.embedding", "encoder.layer.0-1", "decoder.layer.0"},
      {"encoder.layer.0-1.attention", "decoder.layer.1.cross"}};
  int number = 0;
  for (const std::vector<std::string>& parts : choices) {
    const Bits some = Gradients(config(std::to_string(number++), parts));
    EXPECT_LT(some.size(), all.size()) << parts[0];
    EXPECT_GT(some.size(), 0) << parts[0];
    for (const auto& [name, gradient] : some) {
      EXPECT_EQ(gradient, all.at(name)) << parts[0] << ": " << name;
    }
  }
}

TEST_F(FrozenRun, MayKeepGatesLearning) {
  TrainConfig config =
      Frozen("gates", {"embedding", "layer.0-1", "final", "head"});
  config.heads = {{"gates", "hard_concrete"}};
  const Bits learning = Gradients(config);
  EXPECT_EQ(learning.size(), 2);
  for (const auto& [name, gradient] : learning) {
    EXPECT_THAT(name, HasSubstr("log_alpha"));
  }
}

TEST_F(FrozenRun, NamesWhatCannotBeFrozen) {
  EXPECT_THAT(ErrorOf(Frozen("a", {"layer.7"})), HasSubstr("layer.7"));
  EXPECT_THAT(ErrorOf(Frozen("b", {"layer.1.atention"})),
              HasSubstr("layer.1.attention"));
  EXPECT_THAT(ErrorOf(Frozen("c", {"layer.0-2"})), HasSubstr("layer.2"));
  EXPECT_THAT(ErrorOf(Frozen("d", {"embedding", "layer.0-1", "final", "head"})),
              HasSubstr("something that learns"));
  // A frozen run is another run.
  TrainPiece(Frozen("e", {}), 2);
  RunOptions resume;
  resume.resume = true;
  EXPECT_THAT(ErrorOf(Frozen("e", {"layer.0"}), resume), HasSubstr("freeze"));
}

}  // namespace
}  // namespace headwise::freeze_test
