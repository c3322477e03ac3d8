// Models for other programs, and training on texts from memory, through the
// public doors.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/api/test_model.h"
#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/export_model.h"
#include "headwise/head_ref.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/session.h"
#include "headwise/train.h"

namespace headwise::export_test {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(HEADWISE_SOURCE) / "assets/novels";
const fs::path kPlanted = fs::path(HEADWISE_SOURCE) / "assets/planted";

using ExportTest = ScratchFolderTest;

TEST_F(ExportTest, WritesWhatTheTargetReads) {
  const fs::path folder = folder_ / "hf";
  EXPECT_EQ(Export(kModel, {.out = folder}), Novels().info().model_type);
  Transformer written(folder);
  EXPECT_EQ(written.hash(), Novels().hash());
  const ExportJob gguf = {.to = ExportTarget::kGguf,
                          .out = folder_ / "model.gguf",
                          .tokenizer = false};
  EXPECT_FALSE(Export(kModel, gguf).empty());
  std::ifstream file(gguf.out);
  std::string magic(4, ' ');
  file.read(magic.data(), 4);
  EXPECT_EQ(magic, "GGUF");
  EXPECT_THROW(Export(kModel, gguf), Error);  // it is there
  EXPECT_THROW(Export(kModel, {.out = folder}), Error);
  // Nor does a model give its own file away.
  EXPECT_THROW(Export(folder, {.to = ExportTarget::kGguf,
                               .out = folder / "model.safetensors",
                               .tokenizer = false,
                               .force = true}),
               Error);
  EXPECT_EQ(Transformer(folder).hash(), Novels().hash());
}

TEST_F(ExportTest, RefusesWhatATargetDoesNotKnow) {
  const auto refused = [](const ExportJob& job) {
    EXPECT_THROW(Export(kModel, job), Error);
  };
  refused({});
  refused({.to = ExportTarget::kGguf, .out = folder_ / "a", .twin = true});
  refused(
      {.to = ExportTarget::kOnnx, .out = folder_ / "a", .type = DType::kBF16});
  refused({.out = folder_ / "a", .tokenizer = false});
  EXPECT_EQ(ParseExportTarget("onnx"), ExportTarget::kOnnx);
  EXPECT_THROW(ParseExportTarget("tar"), Error);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(ExportTest, SaysHowPositionsTurnOrRefuses) {
  const fs::path goldens =
      fs::path(HEADWISE_SOURCE) / "tests/conformance/goldens";
  const auto gguf = [&](const char* golden) -> std::string {
    const fs::path out = folder_ / (std::string(golden) + ".gguf");
    try {
      Export(goldens / golden,
             {.to = ExportTarget::kGguf, .out = out, .tokenizer = false});
    } catch (const Error& error) {
      return error.what();
    }
    return Contents(out);
  };
  const std::string longrope = gguf("mistral-longrope");
  for (const char* word :
       {"llama.rope.scaling.type", "longrope",
        "llama.rope.scaling.original_context_length",
        "llama.rope.scaling.attn_factor", "rope_factors_long.weight",
        "rope_factors_short.weight"}) {
    EXPECT_NE(longrope.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(longrope.find("llama.rope.scaling.factor"), std::string::npos);
  const std::map<const char*, const char*> refused = {
      {"llama-dynamic", "found dynamic"},
      {"qwen2-proportional", "rotary positions of whole heads; found 4 of 8"},
      {"qwen3-longrope-short", "found llama3 or longrope"}};
  for (const auto& [golden, why] : refused) {
    EXPECT_NE(gguf(golden).find(why), std::string::npos) << golden;
  }
  for (const char* golden : {"llama-dynamic", "mistral-longrope",
                             "qwen2-proportional", "qwen3-longrope-short"}) {
    Export(goldens / golden,
           {.to = ExportTarget::kOnnx,
            .out = folder_ / (std::string(golden) + ".onnx")});
  }
}

TrainJob TinyRun(const fs::path& out) {
  TrainJob job;
  job.json =
      R"({"task": "causal_lm", "model": {"model_type": "llama",
      "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
      "num_attention_heads": 2, "max_position_embeddings": 32}, "steps": 2,
      "batch": 2, "micro_batch": 2, "sequence": 16, "warmup": 1,
      "evaluate_every": 2, "save_every": 2, "hold_out": 0})";
  job.settings = {"out=" + out.string(),
                  "tokenizer=" + (kPlanted / "tokenizer.json").string()};
  return job;
}

// The same losses as with a file of the same text, without one.
// Final states of a text.
Tensor StatesOf(const fs::path& folder) {
  Context context({.threads = 1, .implementations = ""});
  const std::vector<int32_t> ids = {5, 9, 3, 17, 40, 2};
  const int64_t lengths[] = {6};
  return Forward(context, *OpenModel(folder), {.ids = ids, .lengths = lengths});
}

// A golden without head 0.0, written to a folder; with a bias behind the heads
// of layer 0, where it is named.
void WriteSmaller(const fs::path& golden, const fs::path& out,
                  const std::string& bias_name = "") {
  const auto model = OpenModel(golden);
  const HeadRef removed[] = {{AttentionKind::kSelf, 0, 0}};
  ChangedTensors changed = RemoveHeads(*model, removed);
  if (!bias_name.empty()) {
    Tensor bias(DType::kF32, {model->config().width});
    std::fill_n(bias.As<float>(), bias.size(), 0.25f);
    changed[bias_name] = std::move(bias);
  }
  WriteChanged(
      golden, out, changed,
      ConfigWithout(ReadJson(golden / "config.json"), *model, removed));
}

// Slopes are those of a head's place; keys have a part that all heads share.
TEST_F(ExportTest, TwinsOfSlopesAndLatentsAnswerAsThePruned) {
  const fs::path goldens =
      fs::path(HEADWISE_SOURCE) / "tests/conformance/goldens";
  for (const char* golden : {"bloom", "deepseek_v2", "deepseek_v3"}) {
    SCOPED_TRACE(golden);
    const fs::path ours = folder_ / "ours" / golden;
    const fs::path twin = folder_ / "twin" / golden;
    WriteSmaller(goldens / golden, ours);
    Export(ours, {.out = twin, .twin = true});
    EXPECT_EQ(OpenConfig(twin).layers[0].heads, 3);
    const Tensor expected = StatesOf(ours), found = StatesOf(twin);
    for (int64_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(expected.As<float>()[i], found.As<float>()[i], 1e-4);
    }
  }
}

// transformers would read the twin without it.
TEST_F(ExportTest, ABiasThatStockCodeDoesNotHaveIsRefused) {
  WriteSmaller(fs::path(HEADWISE_SOURCE) / "tests/conformance/goldens/gptj",
               folder_ / "ours", "transformer.h.0.attn.out_proj.bias");
  try {
    Export(folder_ / "ours", {.out = folder_ / "twin", .twin = true});
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no bias behind the heads"),
              std::string::npos)
        << error.what();
  }
}

// Stock code reads a bias by a switch, which this model has off.
TEST_F(ExportTest, SwitchesBiasesOnWhereHeadsWereFolded) {
  const fs::path golden =
      fs::path(HEADWISE_SOURCE) / "tests/conformance/goldens/gpt_neox-serial";
  const auto model = OpenModel(golden);
  const HeadRef removed[] = {{AttentionKind::kSelf, 0, 1}};
  ChangedTensors changed = RemoveHeads(*model, removed);
  Tensor bias(DType::kF32, {model->config().width});
  std::fill_n(bias.As<float>(), bias.size(), 0.25f);
  changed["gpt_neox.layers.0.attention.dense.bias"] = std::move(bias);
  WriteChanged(
      golden, folder_ / "ours", changed,
      ConfigWithout(ReadJson(golden / "config.json"), *model, removed));
  EXPECT_EQ(Export(folder_ / "ours", {.out = folder_ / "twin", .twin = true}),
            "gpt_neox");
  EXPECT_EQ(ReadJson(folder_ / "twin/config.json")["attention_bias"], true);
  const Tensor ours = StatesOf(folder_ / "ours");
  const Tensor twin = StatesOf(folder_ / "twin");
  for (int64_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours.As<float>()[i], twin.As<float>()[i], 1e-4);
  }
  try {
    Export(golden, {.to = ExportTarget::kGguf, .out = folder_ / "a.gguf"});
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("layer.0.attention"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(ExportTest, TrainsOnTextsFromMemory) {
  const std::string text = Contents(fs::path(HEADWISE_SOURCE) / "assets/text" /
                                    "the-lamp-at-sorrel-point.txt")
                               .substr(0, 4000);
  std::ofstream(folder_ / "text.txt") << text;
  TrainJob by_file = TinyRun(folder_ / "a");
  by_file.settings.push_back("data=[\"" + (folder_ / "text.txt").string() +
                             "\"]");
  TrainJob by_text = TinyRun(folder_ / "b");
  by_text.texts = {text};
  const TrainOutcome made = Train(by_text);
  EXPECT_EQ(made.losses, Train(by_file).losses);
  EXPECT_EQ(made.losses.size(), 2);
  EXPECT_THROW(Train(by_text), Error);  // the folder holds a run
  by_text.resume = true;
  EXPECT_EQ(Train(by_text).losses, made.losses);
  by_file.texts = {text};
  EXPECT_THROW(Train(by_file), Error);  // both
  TrainJob bytes = TinyRun(folder_ / "c");
  bytes.texts = {"\xff\xfe"};
  EXPECT_THROW(Train(bytes), Error);
}

}  // namespace
}  // namespace headwise::export_test
