// Whole runs of tiny models: they learn, they do not depend on threads, they
// resume bit for bit, and what goes wrong is named.
#include "headwise/train/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "headwise/base/atomic_file.h"
#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/model_hash.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/train/material.h"
#include "headwise/train/training_run.h"

namespace headwise::run_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(TrainingRun, LearnsAndLeavesAModelThatOpens) {
  TrainConfig config = Config("learn");
  config.steps = 60;
  config.save_every = 60;
  config.dropout = 0;
  const TrainingRecord record = Train(config);
  ASSERT_EQ(record.losses.size(), 60);
  EXPECT_NEAR(record.losses.front(), std::log(260.0), 0.2);
  EXPECT_LT(record.losses.back(), 0.6 * record.losses.front());
  EXPECT_EQ(record.validation.back().first, 60);
  EXPECT_LT(record.validation.back().second, 0.6 * record.losses.front());
  const auto model = OpenModel(config.out);
  EXPECT_EQ(model->config().vocabulary, 260);
  EXPECT_EQ(model->config().bos, 0);
  EXPECT_TRUE(fs::exists(fs::path(config.out) / "tokenizer.json"));
  EXPECT_EQ(
      TrainingRecord::FromFile(fs::path(config.out) / "training.json").losses,
      record.losses);
}

TEST_F(TrainingRun, HasTheSameLossesAtAnyThreadCount) {
  const TrainingRecord one = Train(Config("one"), 1);
  const TrainingRecord three = Train(Config("three"), 3);
  EXPECT_EQ(one.losses, three.losses);
  EXPECT_EQ(one.validation, three.validation);
  EXPECT_EQ(ModelHash(folder_ / "one"), ModelHash(folder_ / "three"));
  TrainConfig other = Config("other");
  other.seed = 2;
  EXPECT_NE(Train(other).losses, one.losses);
}

// What chooses heads: same seed, same losses, at any thread count and however
// often the run is cut.
TEST_F(TrainingRun, GatesDependOnTheSeedAloneAndResumeBitForBit) {
  const char* const kinds[] = {
      R"({})", R"({"gates": "hard_concrete"})",
      R"({"gates": "mixture", "shared_heads": 1, "active_heads": 2})",
      R"({"span_ramp": 4})"};
  std::vector<std::vector<double>> seen;
  for (const char* kind : kinds) {
    auto config = [&](const std::string& out) {
      TrainConfig own = Config(out + std::to_string(seen.size()));
      own.model["num_attention_heads"] = 4;
      own.model["num_key_value_heads"] = 2;
      own.heads = Json::parse(kind);
      own.head_dropout = 0.3;
      own.head_dropout_schedule = HeadDropoutSchedule::kV;
      own.gate_penalty = 0.1;
      own.balance = 0.1;
      own.span_penalty = 0.1;
      own.dropout = 0;
      return own;
    };
    const TrainingRecord one = Train(config("one"), 1);
    const TrainingRecord three = Train(config("three"), 3);
    EXPECT_EQ(one.losses, three.losses) << kind;
    TrainPiece(config("pieces"), 5);
    const TrainConfig pieces = config("pieces");
    EXPECT_EQ(TrainPiece(pieces, 100).losses, one.losses) << kind;
    EXPECT_EQ(ModelHash(pieces.out), ModelHash(config("one").out)) << kind;
    TrainConfig other = config("other");
    other.seed = 2;
    EXPECT_NE(Train(other).losses, one.losses) << kind;
    seen.push_back(one.losses);
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
  EXPECT_NE(seen[0], seen[3]);
}

TEST_F(TrainingRun, PenaltiesCloseGatesAndTheCheckpointKeepsThem) {
  TrainConfig first = Config("dense");
  first.dropout = 0;
  Train(first);
  TrainConfig config = Config("gated");
  config.start = first.out;
  config.model = Json::object();
  config.heads = {{"gates", "hard_concrete"}};
  config.gate_penalty = 5;
  config.gate_rate = 100;
  config.steps = 30;
  Train(config);
  const auto model = OpenModel(config.out);
  Context context({1, ""});
  EXPECT_EQ(model->config().gates.kind, GateKind::kHardConcrete);
  for (const Block& block : model->stack().blocks) {
    const Tensor log_alpha =
        ToF32(context, block.attention().weights().gates.weights().log_alpha);
    for (int64_t h = 0; h < log_alpha.size(); ++h) {
      EXPECT_EQ(ConcreteGate(log_alpha.As<float>()[h]), 0);
    }
  }
  // Opened again without a word about heads, the gates stay.
  TrainConfig again = Config("again");
  again.start = config.out;
  again.model = Json::object();
  Train(again);
  EXPECT_EQ(OpenModel(again.out)->config().gates.kind, GateKind::kHardConcrete);
}

TEST_F(TrainingRun, GatesThatMakeNoSenseAreRefused) {
  TrainConfig config = Config("bad");
  config.heads = {{"gates", "mixtur"}};
  EXPECT_THAT(ErrorOf(config), HasSubstr("hard_concrete or mixture"));
  config.heads = {{"gate", "mixture"}};
  EXPECT_THAT(ErrorOf(config), HasSubstr("did you mean \"gates\"?"));
  config.heads = {{"gates", "mixture"}, {"active_heads", 3}};
  EXPECT_THAT(ErrorOf(config), HasSubstr("at most the 2 heads"));
}

TEST_F(TrainingRun, ResumesBitForBit) {
  const TrainingRecord whole = Train(Config("whole"));
  const TrainConfig config = Config("pieces");
  EXPECT_EQ(TrainPiece(config, 3).step, 3);
  EXPECT_EQ(TrainPiece(config, 4).step, 7);
  // A save that a power cut left unfinished is passed over.
  fs::create_directories(folder_ / "pieces/checkpoints/step-00000009.tmp");
  const TrainingRecord pieces = TrainPiece(config, 100);
  EXPECT_EQ(pieces.losses, whole.losses);
  EXPECT_EQ(pieces.validation, whole.validation);
  EXPECT_EQ(ModelHash(folder_ / "pieces"), ModelHash(folder_ / "whole"));
  EXPECT_FALSE(fs::exists(folder_ / "pieces/checkpoints/step-00000009.tmp"));
}

TEST_F(TrainingRun, KeepsTheCheckpointsItIsAskedToKeep) {
  TrainConfig config = Config("keep");
  config.save_every = 2;
  config.keep_every = 4;
  Train(config);
  std::vector<std::string> names;
  for (const auto& one :
       fs::directory_iterator(folder_ / "keep" / "checkpoints")) {
    names.push_back(one.path().filename());
    EXPECT_NO_THROW(OpenModel(one.path()));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "step-00000004", "step-00000008", "step-00000012"));
}

TEST_F(TrainingRun, RefusesToMixRuns) {
  TrainConfig config = Config("mixed");
  Train(config);
  EXPECT_THAT(ErrorOf(config), HasSubstr("of a run; resume it"));
  config.rate = 0.5;
  config.seed = 4;
  RunOptions resume;
  resume.resume = true;
  EXPECT_THAT(ErrorOf(config, resume),
              HasSubstr("rate: 0.02, now 0.5; seed: 1, now 4"));
  config = Config("mixed");
  std::ofstream(folder_ / "text.txt", std::ios::app) << "more";
  EXPECT_THAT(ErrorOf(config, resume), HasSubstr("other text"));
}

TEST_F(TrainingRun, NamesStepAndTensorOfALossThatIsNotFinite) {
  TrainConfig config = Config("nan");
  config.rate = 1e30;
  config.clip = 0;
  const std::string message = ErrorOf(config);
  EXPECT_THAT(message, HasSubstr("training step"));
  EXPECT_THAT(message, HasSubstr("first in the"));
}

TEST_F(TrainingRun, ReadsLinesOfJsonAsTheirTexts) {
  TrainConfig config = Config("plain");
  config.hold_out = 0;
  WriteFileAtomically(folder_ / "text.jsonl",
                      "{\"text\": \"the cat sat on a mat. \"}\n"
                      "{\"text\": \"the mat sat on a cat. \"}\n");
  fs::create_directories(folder_ / "folder/.hidden");
  WriteFileAtomically(folder_ / "folder/.hidden/text.txt", "never read");
  config.data = {folder_ / "text.jsonl", folder_ / "folder"};
  config.steps = 1;
  EXPECT_EQ(Train(config).data["tokens"], 44);
}

TEST_F(TrainingRun, LeavesNothingWhenItIsRefused) {
  TrainConfig config = Config("new/run");
  config.data = {folder_ / "none.txt"};
  EXPECT_THAT(ErrorOf(config), HasSubstr("none.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  WriteFileAtomically(folder_ / "short.txt", "the cat");
  config.data = {folder_ / "short.txt"};
  EXPECT_THAT(ErrorOf(config), HasSubstr("at least 16 tokens, one sequence"));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  config.data = {folder_ / "none.txt"};
  // What was there before stays.
  fs::create_directories(folder_ / "old");
  config.out = folder_ / "old" / "run";
  EXPECT_THAT(ErrorOf(config), HasSubstr("none.txt"));
  EXPECT_TRUE(fs::is_empty(folder_ / "old"));
  config.out = folder_ / "old";
  EXPECT_THAT(ErrorOf(config), HasSubstr("none.txt"));
  EXPECT_TRUE(fs::exists(folder_ / "old"));
}

TEST_F(TrainingRun, NamesBadData) {
  TrainConfig config = Config("bad");
  WriteFileAtomically(folder_ / "text.txt", "");
  EXPECT_THAT(ErrorOf(config), HasSubstr("some text"));
  WriteFileAtomically(folder_ / "text.txt", "x");
  EXPECT_THAT(ErrorOf(config), HasSubstr("at least 16 tokens"));
  WriteFileAtomically(folder_ / "text.txt", "ab\xff\xfe cd");
  EXPECT_THAT(ErrorOf(config), HasSubstr("text.txt"));
  config.data = {folder_ / "none.txt"};
  EXPECT_THAT(ErrorOf(config), HasSubstr("none.txt"));
  config = Config("bad");
  config.sequence = 65;
  EXPECT_THAT(ErrorOf(config), HasSubstr("64 positions"));
  config = Config("bad");
  config.model["vocab_size"] = 100;
  EXPECT_THAT(ErrorOf(config), HasSubstr("260"));
  config.task = TrainTask::kMaskedLm;
  EXPECT_THAT(ErrorOf(config), HasSubstr("260"));
}

Json Bert(const std::string& type) {
  if (type == "distilbert") {
    return {{"model_type", type}, {"dim", 16},
            {"hidden_dim", 24},   {"n_layers", 2},
            {"n_heads", 2},       {"max_position_embeddings", 64}};
  }
  return {{"model_type", type},       {"hidden_size", 16},
          {"intermediate_size", 24},  {"num_hidden_layers", 2},
          {"num_attention_heads", 2}, {"max_position_embeddings", 64}};
}

Json ModelOfFamily(const std::string& type) {
  if (type == "gpt2") {
    return {{"model_type", "gpt2"},
            {"n_embd", 16},
            {"n_layer", 2},
            {"n_head", 2},
            {"n_positions", 64}};
  }
  if (type != "marian") return Bert(type);
  return {{"model_type", "marian"},
          {"d_model", 16},
          {"encoder_layers", 2},
          {"decoder_layers", 2},
          {"encoder_attention_heads", 2},
          {"decoder_attention_heads", 2},
          {"encoder_ffn_dim", 24},
          {"decoder_ffn_dim", 24},
          {"max_position_embeddings", 64},
          {"scale_embedding", true},
          {"eos_token_id", 2},
          {"pad_token_id", 3},
          {"decoder_start_token_id", 3}};
}

// Runs of new models of every family, for their tasks.
class FamilyRun : public TrainingRun {
 protected:
  TrainConfig FamilyConfig(const std::string& type,
                           const std::string& out) const {
    TrainConfig config = Config(out + "-" + type);
    if (type == "llama" || type == "mistral" || type.starts_with("qwen")) {
      config.model["model_type"] = type;
    } else {
      config.model = ModelOfFamily(type);
    }
    config.steps = 30;
    config.save_every = 30;
    if (type.find("bert") != type.npos) {
      config.task = TrainTask::kMaskedLm;
      config.repeat_share = 0;
    }
    if (type == "marian") {
      config.task = TrainTask::kTranslation;
      config.data = {folder_ / "pairs.tsv"};
      config.smoothing = 0.1;
    }
    return config;
  }

  // What was saved opens again and gives the loss it was saved with.
  static void ExpectSame(const TrainConfig& config,
                         const TrainingRecord& record) {
    Context context({1, ""});
    TrainConfig again = config;
    again.start = config.out;
    again.model = Json::object();
    again.heads = Json::object();
    const Material material = OpenMaterial(context, DType::kF32, again, {});
    const Trainer trainer(context, again, *material.model, *material.store);
    EXPECT_EQ(trainer.Evaluate(*material.validation, 4),
              record.validation.back().second)
        << config.out;
  }
};

TEST_F(FamilyRun, TrainsEveryFamily) {
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "gpt2", "bert",
                           "roberta", "distilbert", "marian"}) {
    const TrainConfig config = FamilyConfig(type, "family");
    const TrainingRecord record = Train(config);
    EXPECT_LT(record.losses.back(), record.losses.front() - 0.5) << type;
    ExpectSame(config, record);
  }
}

// Pairs and labels are cut by a tokenizer and split into two parts too.
TEST_F(FamilyRun, RefusesToMixTokenizersAndSplits) {
  const auto tokenizer = [&](const std::string& word) {
    WriteFileAtomically(folder_ / "words.txt", word + word + word);
    TextSource words({folder_ / "words.txt"});
    WriteFileAtomically(
        folder_ / "tokenizer.json",
        TrainByteLevelBpe(
            words,
            {.size = 261, .special_tokens = {"<mask>", "<eos>", "<p>"}}));
  };
  tokenizer("cats ");
  TrainConfig config = FamilyConfig("marian", "mixed");
  config.steps = 2;
  config.data = {folder_ / "pairs.tsv", folder_ / "pairs.tsv"};
  Train(config);
  RunOptions resume;
  resume.resume = true;
  EXPECT_EQ(ErrorOf(config, resume), "");
  TrainConfig split = config;
  split.data = {folder_ / "pairs.tsv"};
  split.validation = {folder_ / "pairs.tsv"};
  EXPECT_THAT(ErrorOf(split, resume), HasSubstr("other text"));
  tokenizer("still ");
  EXPECT_THAT(ErrorOf(config, resume), HasSubstr("another tokenizer"));
}

// So small a share that there is nothing to guess, to learn or to measure.
TEST_F(FamilyRun, ResumesAfterAnEvaluationOfNothing) {
  TrainConfig config = FamilyConfig("bert", "nothing");
  config.mask_share = 1e-9;
  config.evaluate_every = 1;
  config.steps = 4;
  EXPECT_EQ(TrainPiece(config, 2).step, 2);
  EXPECT_EQ(TrainPiece(config, 2).step, 4);
}

// Gates of a layer that are 0.
int64_t CountClosed(const AttentionLayer& layer) {
  Context context({1, ""});
  const Tensor log_alpha =
      ToF32(context, layer.weights().gates.weights().log_alpha);
  int64_t closed = 0;
  for (int64_t h = 0; h < log_alpha.size(); ++h) {
    closed += ConcreteGate(log_alpha.As<float>()[h]) == 0 ? 1 : 0;
  }
  return closed;
}

// Causal, bidirectional and cross-attention: a price closes every head.
TEST_F(FamilyRun, ClosesGatesOfEveryKindOfAttention) {
  for (const char* type : {"gpt2", "bert", "marian"}) {
    TrainConfig config = FamilyConfig(type, "gated");
    config.heads = {{"gates", "hard_concrete"}};
    config.gate_penalty = 5;
    config.gate_rate = 100;
    const TrainingRecord record = Train(config);
    ExpectSame(config, record);
    const auto model = OpenModel(config.out);
    int64_t closed = 0, cross = 0;
    for (const Stack* stack : {&model->stack(), model->decoder()}) {
      if (stack == nullptr) continue;
      for (const Block& block : stack->blocks) {
        closed += CountClosed(block.attention());
        if (block.has_cross()) cross += CountClosed(block.cross());
      }
    }
    const bool two_stacks = model->decoder() != nullptr;
    EXPECT_EQ(closed, two_stacks ? 8 : 4) << type;
    EXPECT_EQ(cross, two_stacks ? 4 : 0) << type;
  }
}

TEST_F(FamilyRun, TrainsMixturesOfEveryKindOfAttention) {
  for (const char* type : {"gpt2", "bert", "marian"}) {
    TrainConfig config = FamilyConfig(type, "mixture");
    config.heads = {{"gates", "mixture"}, {"active_heads", 1}};
    const TrainingRecord record = Train(config);
    EXPECT_LT(record.losses.back(), record.losses.front() - 0.3) << type;
    ExpectSame(config, record);
    EXPECT_EQ(OpenModel(config.out)->config().gates.kind, GateKind::kMixture);
  }
}

// The class depends on a word that may stand anywhere.
TEST_F(TrainingRun, LearnsToClassifyFromANewAndFromATrainedModel) {
  std::string lines;
  Rng rng(4);
  for (int i = 0; i < 200; ++i) {
    const bool good = rng.Below(2) == 0;
    std::string text(rng.Below(5), 'x');
    text += good ? "+" : "-";
    text += std::string(rng.Below(5), 'y');
    lines += text + (good ? "\tgood\n" : "\tbad\n");
  }
  WriteFileAtomically(folder_ / "labels.tsv", lines);
  Train(Config("language"));
  for (const std::string type : {"llama", "bert", "distilbert", "further"}) {
    TrainConfig config = Config("classes-" + type);
    config.task = TrainTask::kClassification;
    config.data = {folder_ / "labels.tsv"};
    config.steps = 60;
    config.save_every = 60;
    config.batch = config.micro_batch = 16;
    config.dropout = 0;
    if (type.find("bert") != type.npos) {
      config.model = Bert(type);
    } else if (type == "further") {
      config.model = Json::object();
      config.start = folder_ / "language";
    }
    EXPECT_LT(Train(config).validation.back().second, 0.3) << type;
    Context context({1, ""});
    TrainConfig again = config;
    again.start = config.out;
    again.model = Json::object();
    const Material material = OpenMaterial(context, DType::kF32, again, {});
    const Trainer trainer(context, again, *material.model, *material.store,
                          &*material.classifier);
    EXPECT_LT(trainer.Evaluate(*material.validation, 50), 0.3) << type;
    EXPECT_EQ(material.data["labels"].dump(), R"(["bad","good"])");
  }
}

}  // namespace
}  // namespace headwise::run_test
