// Checkpoints that lie: every way a folder can contradict itself ends in an
// Error that names the file and the key or tensor, without memory beyond what
// the files hold. (Bytes of safetensors: safetensors_hostile_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/sanitized.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/generate.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise::hostile_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kGoldens =
    fs::path(HEADWISE_SOURCE) / "tests" / "conformance" / "goldens";

struct Lie {
  const char* name;
  const char* family;
  std::function<void(Json&)> tell;
  const char* says;
};

std::vector<Lie> Lies() {
  const auto set = [](const char* key, Json value) {
    return [=](Json& config) { config[key] = value; };
  };
  return {
      {"heads × head_dim ≠ rows", "llama", set("num_attention_heads", 8),
       "q_proj.weight"},
      {"another head_dim", "llama", set("head_dim", 64), "q_proj.weight"},
      {"kv heads", "llama", set("num_key_value_heads", 4), "k_proj.weight"},
      {"kv heads that do not divide", "llama", set("num_key_value_heads", 3),
       "num_key_value_heads"},
      {"width", "llama", set("hidden_size", 64), "embed_tokens.weight"},
      {"feed-forward", "llama", set("intermediate_size", 7), "gate_proj"},
      {"vocabulary", "llama", set("vocab_size", 3), "embed_tokens.weight"},
      {"a layer too many", "llama", set("num_hidden_layers", 3),
       "model.layers.2."},
      {"a layer too few", "llama", set("num_hidden_layers", 1),
       "model.layers.1."},
      {"a layer too few", "gpt2", set("n_layer", 1), "h.1."},
      {"a layer too few", "bert", set("num_hidden_layers", 1), "layer.1."},
      {"a layer too few", "distilbert", set("n_layers", 1), "layer.1."},
      {"a decoder layer too few", "marian", set("decoder_layers", 1),
       "model.decoder.layers.1."},
      {"layers without end", "llama", set("num_hidden_layers", 1 << 30),
       "at most 4096 layers"},
      {"heads without end", "llama",
       [](Json& c) {
         c["num_attention_heads"] = 1 << 30;
         c["head_dim"] = 1 << 9;
       },
       "q_proj.weight"},
      {"a head of 2^39", "llama", set("head_dim", int64_t{1} << 39),
       "heads of at most 65536"},
      {"a width of 2^39", "llama", set("hidden_size", int64_t{1} << 39),
       "embed_tokens.weight"},
      {"a negative size", "llama", set("hidden_size", -64), "hidden_size"},
      {"a size in words", "llama", set("hidden_size", "64"), "hidden_size"},
      {"no size", "llama", [](Json& c) { c.erase("hidden_size"); },
       "hidden_size"},
      {"counts of another number of layers", "llama",
       set("heads_per_layer", {4, 4, 4}), "heads_per_layer"},
      {"counts beyond the weights", "llama",
       [](Json& c) {
         c["heads_per_layer"] = {4, 8};
         c["kv_heads_per_layer"] = {2, 2};
       },
       "model.layers.1.self_attn.q_proj.weight"},
      {"groups that do not divide", "llama",
       [](Json& c) {
         c["heads_per_layer"] = {4, 3};
         c["kv_heads_per_layer"] = {2, 2};
       },
       "kv_heads_per_layer"},
      {"heads pruned twice over", "bert",
       [](Json& c) {
         c["pruned_heads"] = {{"0", std::vector<int>(99, 1)}};
       },
       "pruned_heads"},
      {"another family", "llama", set("model_type", "gpt2"), "n_positions"},
      {"an unknown family", "llama", set("model_type", "perceptron"), "gpt2"},
      {"decoder layers without end", "marian",
       set("decoder_layers", int64_t{1} << 39), "decoder_layers"},
      {"a decoder layer too many", "marian", set("decoder_layers", 3),
       "model.decoder.layers.2."},
      {"cross heads", "marian", set("decoder_attention_heads", 5),
       "decoder_attention_heads"},
      {"positions", "gpt2", set("n_positions", 7), "wpe.weight"},
      {"fused rows", "gpt2", set("n_head", 3), "n_head"},
      {"a scale in words", "gpt2", set("scale_attn_weights", "no"),
       "scale_attn_weights"},
      {"heads of an odd width", "llama", set("head_dim", 7),
       "rotary positions turn pairs"},
      {"a negative epsilon", "llama", set("rms_norm_eps", -1.0),
       "rms_norm_eps"},
      {"an epsilon without end", "bert", set("layer_norm_eps", 1e300),
       "layer_norm_eps"},
      {"relative positions", "bert",
       set("position_embedding_type", "relative_key"),
       "position_embedding_type"},
      {"a causal encoder", "bert", set("is_decoder", true), "is_decoder"},
      {"padding beyond the positions", "roberta", set("pad_token_id", 1 << 20),
       "pad_token_id"},
      {"padding without end", "roberta", set("pad_token_id", INT64_MAX),
       "pad_token_id"},
  };
}

class HostileModels : public ScratchFolderTest {
 protected:
  void Copy(const char* family) {
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(kGoldens / family / name, folder_ / name,
                    fs::copy_options::overwrite_existing);
    }
  }
  void WriteConfig(const std::string& text) {
    WriteFileAtomically(folder_ / "config.json", text);
  }
  // What opening the folder says, or "" where it succeeds.
  std::string Complaint() {
    try {
      OpenModel(folder_);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kOutOfMemory);
      EXPECT_NE(error.code(), ErrorCode::kInternal);
      return error.what();
    }
    return "";
  }
};

TEST_F(HostileModels, EveryContradictionOfTheWeightsIsNamed) {
  for (const Lie& lie : Lies()) {
    Copy(lie.family);
    Json config = ReadJson(folder_ / "config.json");
    lie.tell(config);
    WriteConfig(config.dump());
    EXPECT_THAT(Complaint(), HasSubstr(lie.says)) << lie.name;
  }
}

TEST_F(HostileModels, ConfigsThatAreNoJson) {
  Copy("llama");
  const std::string good = ReadJson(folder_ / "config.json").dump();
  WriteConfig(good.substr(0, good.size() / 2));
  EXPECT_THAT(Complaint(), HasSubstr("config.json: byte"));
  WriteConfig("{\"model_type\": " + std::string(129, '[') +
              std::string(129, ']') + "}");
  EXPECT_THAT(Complaint(), HasSubstr("nesting deeper than 128"));
  WriteConfig("{\"model_type\": \"ll\xff\"}");
  EXPECT_THAT(Complaint(), HasSubstr("UTF-8"));
  WriteConfig("[]");
  EXPECT_THAT(Complaint(), HasSubstr("an object"));
  WriteConfig("");
  EXPECT_THAT(Complaint(), HasSubstr("config.json"));
}

TEST_F(HostileModels, MissingAndMisshapenTensorsAreNamed) {
  Copy("llama");
  const Safetensors file = Safetensors::Open(folder_ / "model.safetensors");
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const auto rewrite = [&](bool keep) {
    std::vector<NamedTensor> tensors;
    for (const auto& [key, view] : file.tensors()) {
      NamedTensor tensor{key, view};
      if (key == name) {
        if (!keep) continue;
        tensor.view.shape[0] -= 1;
      }
      tensors.push_back(tensor);
    }
    WriteSafetensors(folder_ / "model.safetensors", tensors, {});
  };
  rewrite(true);
  EXPECT_THAT(Complaint(),
              testing::AllOf(HasSubstr(name), HasSubstr("model.safetensors")));
  rewrite(false);
  EXPECT_THAT(Complaint(),
              testing::AllOf(HasSubstr(name), HasSubstr("model.safetensors")));
  fs::resize_file(folder_ / "model.safetensors",
                  fs::file_size(folder_ / "model.safetensors") - 1);
  EXPECT_THAT(Complaint(), HasSubstr("model.safetensors"));
}

// Weights that are no numbers end a translation, with beams and without.
TEST_F(HostileModels, LogitsThatAreNoNumbers) {
  Copy("marian");
  const Safetensors file = Safetensors::Open(kGoldens / "marian");
  Tensor bias(DType::kF32, {1, file.At("final_logits_bias").shape[1]});
  std::fill_n(bias.As<float>(), bias.size(), NAN);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors()) {
    tensors.push_back({name, name == "final_logits_bias"
                                 ? std::as_const(bias).view()
                                 : view});
  }
  WriteSafetensors(folder_ / "model.safetensors", tensors);
  const auto model = OpenModel(folder_);
  Context context({1, ""});
  const std::vector<int32_t> source = {5, 6, 7};
  for (const int64_t beam : {1, 4}) {
    EXPECT_THROW(
        Generate(context, *model, source, {.max_tokens = 5, .beam = beam}),
        Error)
        << beam;
  }
}

TEST_F(HostileModels, MergesThatNameUnknownTokens) {
  WriteFileAtomically(folder_ / "tokenizer.json",
                      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1},
                    "merges": ["a b", "a c"]}})");
  try {
    Tokenizer::Load(folder_);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("merges: 0"));
    EXPECT_THAT(error.what(), HasSubstr("\"ab\""));
  }
}

// In a process of its own that may take only a little memory: 0, or what went
// wrong.
[[noreturn]] void OpenInLittleMemory(const fs::path& folder) {
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = 64 << 20;
  setrlimit(RLIMIT_DATA, &limit);
  try {
    OpenModel(folder);
  } catch (const Error& error) {
    std::_Exit(error.code() == ErrorCode::kOutOfMemory ? 1 : 0);
  } catch (const std::bad_alloc&) {
    std::_Exit(2);
  }
  std::_Exit(0);
}

TEST_F(HostileModels, NothingIsAllocatedOnAFilesWord) {
  if (IsSanitized()) {
    GTEST_SKIP() << "sanitizers hold memory of their own";
  }
  for (const char* key :
       {"hidden_size", "head_dim", "vocab_size", "intermediate_size",
        "max_position_embeddings", "num_hidden_layers", "sliding_window"}) {
    Copy("mistral");
    Json config = ReadJson(folder_ / "config.json");
    config[key] = (int64_t{1} << 40) - 1;
    WriteConfig(config.dump());
    EXPECT_EXIT(OpenInLittleMemory(folder_), testing::ExitedWithCode(0), "")
        << key;
  }
}

}  // namespace
}  // namespace headwise::hostile_test
