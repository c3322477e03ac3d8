// What families read of a checkpoint: settings that change results are obeyed
// or refused by name, tensors are read or named.
#include "headwise/model/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/parameters.h"

namespace headwise::family_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::filesystem::path kGoldens =
    std::filesystem::path(HEADWISE_SOURCE) / "tests/conformance/goldens";

Json GoldenJson(const std::string& golden) {
  return ReadJson(kGoldens / golden / "config.json");
}

std::string Refusal(const std::string& golden, const char* key,
                    const Json& value) {
  Json config = GoldenJson(golden);
  config[key] = value;
  try {
    ReadConfig(config, "c");
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

TEST(Settings, ThatNoFamilyObeysAreRefusedByName) {
  struct Setting {
    const char *golden, *key;
    Json value;
    const char* inner = "";  // where the value's member is at fault
  };
  const Setting refused[] = {
      {"gpt2", "add_cross_attention", true},
      {"gpt2", "is_causal", false},
      {"gpt2", "quantization_config", {{"bits", 4}}},
      {"bert", "add_cross_attention", true},
      {"bert", "is_decoder", true},
      {"bert", "position_embedding_type", "relative_key"},
      {"bert", "hidden_act", "quick_gelu"},
      {"roberta", "is_decoder", true},
      {"distilbert", "layer_norm_eps", 1e-5},
      {"xlm-roberta", "is_decoder", true},
      {"electra", "is_decoder", true},
      {"albert", "headwise", {{"gates", "hard_concrete"}}},
      {"albert", "num_hidden_groups", 9},
      {"modernbert", "head_dim", 4},
      {"modernbert", "layer_types", {"full_attention", "local", "local"}},
      {"mpnet", "relative_attention_num_buckets", 40},
      {"llama", "is_causal", false},
      {"llama", "partial_rotary_factor", 0.5},
      {"llama", "rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}},
      {"llama",
       "rope_parameters",
       {{"rope_type", "dynamic"}, {"factor", 2}, {"alpha", 1000}},
       "alpha"},
      {"llama",
       "rope_parameters",
       {{"full_attention", Json::object()}},
       "full_attention"},
      {"qwen2",
       "rope_parameters",
       {{"partial_rotary_factor", 0.5}},
       "partial_rotary_factor"},
      {"mistral", "layer_types", {"full_attention", "sliding_attention"}},
      {"gpt_neox", "is_causal", false},
      {"gpt_neox", "head_dim", 4},
      {"gpt_neox", "rope_theta", 10000},
      {"gpt_neox", "partial_rotary_factor", 0.5},
      {"gptj", "is_causal", false},
      {"gpt_neo", "attention_layers", {"global", "global"}},
      {"opt", "layer_norm_elementwise_affine", false},
      {"bloom", "apply_residual_connection_post_layernorm", true},
      {"bloom", "pruned_heads", {{"0", {1}}}},
      {"phi-normed", "head_dim", 4},
      {"deepseek_v2", "mlp_bias", true},
      {"deepseek_v3", "num_key_value_heads", 1},
      {"deepseek_v3", "qk_head_dim", 8},
      {"marian", "normalize_before", true},
      {"marian", "static_position_embeddings", false},
      {"marian", "is_causal", false}};
  for (const Setting& setting : refused) {
    const std::string name = *setting.inner ? setting.inner : setting.key;
    EXPECT_THAT(Refusal(setting.golden, setting.key, setting.value),
                HasSubstr("\"" + name + "\" to be "))
        << setting.golden;
  }
}

TEST(Settings, ThatSayWhatIsDoneAnywayAreRead) {
  const std::tuple<const char*, const char*, Json> harmless[] = {
      {"gpt2", "add_cross_attention", nullptr},
      {"gpt2", "reorder_and_upcast_attn", true},
      {"bert", "use_cache", true},
      {"distilbert", "layer_norm_eps", 1e-12},
      {"llama", "partial_rotary_factor", 1.0},
      {"mistral", "layer_types", {"sliding_attention", "sliding_attention"}},
      {"gpt_neox", "head_dim", 8},
      {"gpt_neox", "is_decoder", true},
      {"gpt_neo", "attention_layers", {"global", "local"}},
      {"bloom", "slow_but_exact", true},  // where pretraining_tp is 1
      {"phi", "head_dim", 8},
      {"deepseek_v3", "norm_topk_prob", false},
      {"marian", "normalize_before", false},
      {"marian", "decoder_vocab_size", 9}};  // one table: not read
  for (const auto& [golden, key, value] : harmless) {
    EXPECT_EQ(Refusal(golden, key, value), "read") << golden << " " << key;
  }
}

TEST(Settings, OfTwoVocabulariesAreRefused) {
  Json config = GoldenJson("marian-untied");
  config["decoder_vocab_size"] = 9;
  try {
    ReadConfig(config, "c");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("\"decoder_vocab_size\" to be 64"));
  }
}

TEST(Settings, RobertasPaddingIsOneWhereItsFileIsSilent) {
  for (const char* golden : {"roberta", "xlm-roberta", "camembert"}) {
    Json config = GoldenJson(golden);
    config.erase("pad_token_id");
    EXPECT_EQ(ReadConfig(config, "c").position_offset, 2) << golden;
  }
}

TEST(Settings, MpnetsPositionsDoNotFollowItsPadding) {
  Json config = GoldenJson("mpnet");
  config["pad_token_id"] = 7;
  EXPECT_EQ(ReadConfig(config, "c").position_offset, 2);
}

TEST(Settings, ModernBertsWindowsReachHalfToEachSide) {
  const ModelConfig config = ReadConfig(GoldenJson("modernbert"), "c");
  EXPECT_EQ(config.layers[0].window, 0);
  EXPECT_EQ(config.layers[1].window, 7);  // local_attention 6
  const AttentionMask mask = MaskOf(config, config.layers[1]);
  EXPECT_EQ(mask.before, 3);
  EXPECT_EQ(mask.after, 3);
  Json said = GoldenJson("modernbert");
  said["sliding_window"] = 5;
  EXPECT_EQ(ReadConfig(said, "c").layers[1].window, 11);
}

TEST(SharedLayers, HaveTheWeightsOfTheFirstOfTheirGroup) {
  // 3 passes of 2 layers, of which the first two are of one group.
  const auto model = OpenModel(kGoldens / "albert-groups");
  const int64_t first[] = {0, 1, 0, 1, 4, 5};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(model->config().layers[i].weights_of, first[i]);
    const auto name = [&](int64_t layer) {
      return model->stack().blocks[layer].attention().output().weight().name;
    };
    EXPECT_EQ(name(static_cast<int64_t>(i)), name(first[i]));
    EXPECT_EQ(model->stack().blocks[i].attention().site().layer,
              static_cast<int64_t>(i));
  }
  EXPECT_THAT(LayersSharing(model->config(), 3), ElementsAre(1, 3));
}

// A golden's weights with further tensors of four numbers.
class More : public WeightSource {
 public:
  More(const Checkpoint& checkpoint, std::set<std::string> names)
      : weights_(checkpoint.weights()), names_(std::move(names)) {}

  std::string Describe() const override { return "more"; }
  ConstTensorView Find(const std::string& name) const override {
    return names_.contains(name) ? ConstTensorView(four_, DType::kF32, {4})
                                 : weights_.Find(name);
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names = weights_.Names();
    names.insert(names.end(), names_.begin(), names_.end());
    return names;
  }

 private:
  const WeightSource& weights_;
  std::set<std::string> names_;
  alignas(64) float four_[16] = {};
};

std::vector<std::string> Unread(const std::string& golden,
                                std::set<std::string> more) {
  const Checkpoint checkpoint(kGoldens / golden);
  return BuildModel(checkpoint.config(),
                    std::make_shared<More>(checkpoint, std::move(more)))
      ->unread();
}

TEST(UnreadTensors, AreNamed) {
  EXPECT_THAT(Unread("llama", {"model.layers.0.mlp.gate_proj.scales", "a"}),
              ElementsAre("a", "model.layers.0.mlp.gate_proj.scales"));
  EXPECT_THAT(Unread("bert", {"cls.predictions.decoder.scale"}),
              ElementsAre("cls.predictions.decoder.scale"));
}

TEST(UnreadTensors, ThatModelsAreKnownToDoWithoutAreNot) {
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    EXPECT_THAT(Unread(entry.path().filename(), {}), IsEmpty()) << entry.path();
  }
  EXPECT_THAT(Unread("gpt2", {"transformer.h.0.attn.bias",
                              "transformer.h.0.attn.masked_bias"}),
              IsEmpty());
  EXPECT_THAT(Unread("bert", {"bert.pooler.dense.bias", "classifier.bias",
                              "bert.embeddings.position_ids",
                              "cls.seq_relationship.bias"}),
              IsEmpty());
  EXPECT_THAT(Unread("llama", {"model.layers.0.self_attn.rotary_emb.inv_freq"}),
              IsEmpty());
  EXPECT_THAT(Unread("gpt_neox", {"gpt_neox.layers.0.attention.masked_bias",
                                  "gpt_neox.layers.0.attention.bias"}),
              IsEmpty());
  EXPECT_THAT(Unread("gptj", {"transformer.h.0.attn.masked_bias"}), IsEmpty());
  EXPECT_THAT(Unread("gpt_neo", {"transformer.h.1.attn.attention.bias"}),
              IsEmpty());
  EXPECT_THAT(Unread("marian", {"model.encoder.embed_positions.weight"}),
              IsEmpty());
}

TEST(Biases, AreReadWhereTheConfigurationHasThem) {
  // transformers passes over what its configuration does not have.
  EXPECT_THAT(Unread("llama", {"model.layers.1.self_attn.q_proj.bias"}),
              ElementsAre("model.layers.1.self_attn.q_proj.bias"));
  EXPECT_THAT(Unread("mistral", {"model.layers.1.mlp.up_proj.bias"}),
              ElementsAre("model.layers.1.mlp.up_proj.bias"));
  const std::string unbiased =
      "gpt_neox.layers.1.attention.query_key_value.bias";
  EXPECT_THAT(Unread("gpt_neox-serial", {unbiased}), ElementsAre(unbiased));
  const std::string narrow = "model.decoder.layers.0.fc1.bias";
  EXPECT_THAT(Unread("opt-projected", {narrow}), ElementsAre(narrow));
  Json config = GoldenJson("llama");
  config["attention_bias"] = config["mlp_bias"] = true;
  const ModelConfig biased = ReadConfig(config, "c");
  const auto store = ParameterStore::Fresh(biased, {});
  BuildModel(biased, store);
  for (const char* name :
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj"}) {
    EXPECT_TRUE(store->Find("model.layers.1." + std::string(name) + ".bias"))
        << name;
  }
}

// Of the output's matrix and bias.
using Names = std::pair<std::string, std::string>;

Names OutputOf(const Model& model) {
  return {model.head().vocabulary.weight().name,
          model.head().bias ? model.head().bias.name : ""};
}

TEST(GptNeox, OfOldFilesIsTheSame) {
  Json old = GoldenJson("gpt_neox");
  const ModelConfig wanted = ReadConfig(old, "c");
  old.erase("rope_parameters");
  old["rotary_pct"] = old["partial_rotary_factor"] = 0.25;
  old["rotary_emb_base"] = old["rope_theta"] = 500;
  const ModelConfig found = ReadConfig(old, "c");
  EXPECT_EQ(found.ropes[0].dims(), 2);
  EXPECT_EQ(wanted.ropes[0].dims(), 2);
  EXPECT_EQ(found.ropes[0].base, wanted.ropes[0].base);
  EXPECT_TRUE(found.parallel);
  EXPECT_FALSE(ReadConfig(GoldenJson("gpt_neox-serial"), "c").parallel);
}

TEST(UntiedOutputs, OfNewModelsAreTheirOwn) {
  const std::map<std::string, Names> outputs = {
      {"bert",
       {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}},
      {"roberta", {"lm_head.decoder.weight", "lm_head.decoder.bias"}},
      {"distilbert", {"vocab_projector.weight", "vocab_projector.bias"}},
      {"electra", {"generator_lm_head.weight", "generator_lm_head.bias"}},
      {"modernbert", {"decoder.weight", "decoder.bias"}},
      {"albert", {"predictions.decoder.weight", "predictions.decoder.bias"}},
      {"mpnet", {"lm_head.decoder.weight", "lm_head.decoder.bias"}},
      {"gpt2", {"lm_head.weight", ""}},
      {"llama", {"lm_head.weight", ""}},
      {"gpt_neox", {"embed_out.weight", ""}},
      {"marian", {"lm_head.weight", ""}}};
  for (const auto& [golden, names] : outputs) {
    Json json = GoldenJson(golden);
    json["tie_word_embeddings"] = false;
    const ModelConfig config = ReadConfig(json, "c");
    const auto store = ParameterStore::Fresh(config, {});
    // A model of the same weights reads what the first one made.
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(OutputOf(*BuildModel(config, store)), names) << golden;
    }
    EXPECT_TRUE(store->Find(names.first)) << golden;
    EXPECT_EQ(store->buffers().size(), 1) << golden << ": planned otherwise";
    EXPECT_FALSE(store->Find("model.shared.weight")) << golden;
  }
}

TEST(UntiedOutputs, OfFilesAreReadWithTheirBias) {
  EXPECT_EQ(
      OutputOf(*OpenModel(kGoldens / "bert-untied")),
      Names("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"));
  EXPECT_EQ(OutputOf(*OpenModel(kGoldens / "roberta-untied")),
            Names("lm_head.decoder.weight", "lm_head.decoder.bias"));
  const auto marian = OpenModel(kGoldens / "marian-untied");
  EXPECT_EQ(OutputOf(*marian), Names("lm_head.weight", "final_logits_bias"));
  EXPECT_EQ(marian->stack().embeddings.tokens.name,
            "model.encoder.embed_tokens.weight");
  EXPECT_EQ(marian->decoder()->embeddings.tokens.name,
            "model.decoder.embed_tokens.weight");
}

TEST(UntiedOutputs, ThatAreAbsentAreRefused) {
  for (const char* golden :
       {"bert", "roberta", "distilbert", "gpt2", "gpt_neox-serial"}) {
    Json json = GoldenJson(golden);
    json["tie_word_embeddings"] = false;
    const Checkpoint checkpoint(kGoldens / golden);
    try {
      BuildModel(ReadConfig(json, "c"),
                 std::make_shared<More>(checkpoint, std::set<std::string>()));
      FAIL() << golden;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      EXPECT_THAT(error.what(), HasSubstr("the tensor \""));
    }
  }
}

}  // namespace
}  // namespace headwise::family_test
