// Opening what a run is made of. Door: material.h.
#include "headwise/train/material.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/model_parts.h"
#include "headwise/model/text_frame.h"
#include "headwise/train/pair_batches.h"
#include "headwise/train/text_batches.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;
[[noreturn]] void Refuse(const char* where, const std::string& expected,
                         const std::string& found,
                         const std::string& hint = "") {
  throw Error(ErrorCode::kInvalidArgument, {where, expected, found, hint});
}

// The class name in transformers of a type's model.
std::string Architecture(const std::string& type) {
  static const std::map<std::string, std::string> kNames = {
      {"gpt2", "GPT2LMHeadModel"},
      {"bert", "BertForMaskedLM"},
      {"roberta", "RobertaForMaskedLM"},
      {"distilbert", "DistilBertForMaskedLM"},
      {"xlm-roberta", "XLMRobertaForMaskedLM"},
      {"camembert", "CamembertForMaskedLM"},
      {"electra", "ElectraForMaskedLM"},
      {"modernbert", "ModernBertForMaskedLM"},
      {"albert", "AlbertForMaskedLM"},
      {"mpnet", "MPNetForMaskedLM"},
      {"llama", "LlamaForCausalLM"},
      {"mistral", "MistralForCausalLM"},
      {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},
      {"cohere", "CohereForCausalLM"},
      {"cohere2", "Cohere2ForCausalLM"},
      {"gemma", "GemmaForCausalLM"},
      {"gemma2", "Gemma2ForCausalLM"},
      {"gemma3_text", "Gemma3ForCausalLM"},
      {"gemma4_text", "Gemma4ForCausalLM"},
      {"gpt_oss", "GptOssForCausalLM"},
      {"granite", "GraniteForCausalLM"},
      {"ministral", "MinistralForCausalLM"},
      {"mixtral", "MixtralForCausalLM"},
      {"olmo2", "Olmo2ForCausalLM"},
      {"olmo3", "Olmo3ForCausalLM"},
      {"phi3", "Phi3ForCausalLM"},
      {"qwen2_moe", "Qwen2MoeForCausalLM"},
      {"qwen3_moe", "Qwen3MoeForCausalLM"},
      {"smollm3", "SmolLM3ForCausalLM"},
      {"stablelm", "StableLmForCausalLM"},
      {"starcoder2", "Starcoder2ForCausalLM"},
      {"marian", "MarianMTModel"},
      {"t5", "T5ForConditionalGeneration"},
      {"mt5", "MT5ForConditionalGeneration"},
      {"bart", "BartForConditionalGeneration"},
      {"mbart", "MBartForConditionalGeneration"},
      {"pegasus", "PegasusForConditionalGeneration"},
      {"m2m_100", "M2M100ForConditionalGeneration"}};
  const auto found = kNames.find(type);
  return found == kNames.end() ? "" : found->second;
}

// The token that the tokenizer puts before a text, or −1.
int32_t FirstToken(const Tokenizer& tokenizer) {
  const Encoding encoding = tokenizer.Encode("a");
  return encoding.size() > 0 && encoding.added[0] ? encoding.ids[0] : -1;
}

// The token that begins the model's windows, or −1.
int32_t BeginOfWindows(const Tokenizer& tokenizer, const ModelConfig& model) {
  const TokenFrame frame = FrameOf(tokenizer, model);
  return frame.before.empty() ? -1 : frame.before[0];
}

// tokenizer_config.json: what begins windows, so that whoever reads the model
// begins texts so too.
Json TokenizerJson(const Tokenizer& tokenizer, const ModelConfig& model) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const int32_t bos = BeginOfWindows(tokenizer, model);
  if (bos >= 0) json["bos_token"] = tokenizer.Token(bos).value_or("");
  const bool by_template = FirstToken(tokenizer) >= 0;
  if (model.causal &&
      (by_template != (bos >= 0) || (bos < 0 && model.bos >= 0))) {
    json["add_bos_token"] = bos >= 0;
  }
  return json;
}

// Only what chooses heads: others of the file stay.
void SetHeads(const TrainConfig& config, Json& json) {
  for (const auto& [key, value] : config.heads.items()) {
    if (key == "assign") continue;  // of the run, not of the model
    json["headwise"][key] = value;
  }
}

// config.json of the model to train further. A run that describes its model
// too, as one does that was begun without it, must describe this one.
Json StartJson(const TrainConfig& config) {
  const Path file = Path(config.start) / "config.json";
  const Json start = ReadJson(file);
  if (!start.is_object()) JsonCursor(start, file.string()).Fail("an object");
  for (const auto& [key, value] : config.model.items()) {
    const auto found = start.find(key);
    if (found != start.end() && *found == value) continue;
    Refuse("training",
           "\"" + key + "\" as " + file.string() + " has it, " +
               (found == start.end() ? "nothing" : found->dump()),
           value.dump(), "leave it out of model, or begin without start");
  }
  return start;
}

// A table of embeddings has a row for every id up to the largest, used or not.
int64_t RowsOf(const Tokenizer& tokenizer) {
  constexpr int64_t kSpare = 4096;
  const int64_t rows = tokenizer.vocab_size();
  int64_t tokens = 0;
  for (int64_t id = 0; id < rows; ++id) {
    if (tokenizer.Token(static_cast<int32_t>(id))) ++tokens;
  }
  if (rows <= 2 * tokens + kSpare) return rows;
  Refuse("training", "a tokenizer whose ids lie close together",
         std::to_string(tokens) + " tokens with ids up to " +
             std::to_string(rows - 1),
         "number its tokens anew, or give the model a vocab_size");
}

// config.json: as given, completed by what the tokenizer knows.
Json ModelJson(const TrainConfig& config, const Tokenizer& tokenizer) {
  if (!config.start.empty()) {
    Json json = StartJson(config);
    SetHeads(config, json);
    return json;
  }
  Json json = config.model;
  SetHeads(config, json);
  const int32_t bos = FirstToken(tokenizer);
  if (!json.contains("vocab_size")) json["vocab_size"] = RowsOf(tokenizer);
  if (!json.contains("bos_token_id") && bos >= 0) json["bos_token_id"] = bos;
  const std::string name = Architecture(json.value("model_type", ""));
  if (!json.contains("architectures") && !name.empty()) {
    json["architectures"] = {name};
  }
  return json;
}

void CheckFit(const TrainConfig& config, const ModelConfig& model,
              const Tokenizer& tokenizer) {
  if (tokenizer.vocab_size() > model.vocabulary) {
    Refuse("training",
           "a vocab_size of at least the tokenizer's " +
               std::to_string(tokenizer.vocab_size()),
           std::to_string(model.vocabulary));
  }
  if (config.sequence > model.context) {
    Refuse("training",
           "a sequence of at most the " + std::to_string(model.context) +
               " positions of the model",
           std::to_string(config.sequence));
  }
  const bool alone = !model.encoder_decoder();
  const auto require = [&](bool fits, const char* wanted) {
    if (fits) return;
    Refuse("training",
           fmt::format("{} for the task {}", wanted,
                       FieldWords(config.task)[size_t(config.task)]),
           model.model_type);
  };
  switch (config.task) {
    case TrainTask::kCausalLm:
      return require(model.causal, "a causal model");
    case TrainTask::kMaskedLm:
      return require(alone && !model.causal, "an encoder");
    case TrainTask::kTranslation:
      return require(!alone, "an encoder–decoder");
    case TrainTask::kClassification:
      return;
  }
}

void OpenText(Context& context, const TrainConfig& config,
              const OnProgress& progress, Material& material) {
  material.corpus =
      Corpus::Open(context, config, *material.tokenizer,
                   Path(config.out) / "tokens.safetensors", progress);
  const Corpus& corpus = *material.corpus;
  TextBatchOptions options =
      BatchOptionsOf(config, material.model->config(), *material.tokenizer);
  material.train = std::make_unique<TextBatches>(corpus.train(), options);
  options.shuffled = false;
  options.repeats = {};
  if (static_cast<int64_t>(corpus.validation().size()) >= options.length) {
    material.validation =
        std::make_unique<TextBatches>(corpus.validation(), options);
  }
  material.data = {{"hash", corpus.hash()},
                   {"files", config.data},
                   {"tokens", corpus.train().size()},
                   {"validation_tokens", corpus.validation().size()}};
}

void OpenPairs(const TrainConfig& config, const ModelConfig& model,
               Material& material) {
  if (model.eos.empty()) {
    Refuse("training", "\"eos_token_id\" in the model", "none");
  }
  PairOptions options;
  options.start = static_cast<int32_t>(model.decoder_start);
  options.eos = static_cast<int32_t>(model.eos[0]);
  options.seed = config.seed;
  std::vector<TokenPair> train, validation;
  auto read = [&](const Path& file) {
    return ReadPairs(file, *material.tokenizer, config.sequence - 1);
  };
  const std::vector<Path> files = ListFiles(config.data);
  const std::vector<Path> held = ListFiles(config.validation);
  const auto hold_out = static_cast<size_t>(held.empty() ? config.hold_out : 0);
  size_t number = 0;
  for (const Path& file : files) {
    for (TokenPair& pair : read(file)) {
      const bool kept = hold_out > 0 && ++number % hold_out == 0;
      (kept ? validation : train).push_back(std::move(pair));
    }
  }
  for (const Path& file : held) {
    for (TokenPair& pair : read(file)) validation.push_back(std::move(pair));
  }
  material.data = {{"hash", HashData(config, *material.tokenizer)},
                   {"files", config.data},
                   {"pairs", train.size()},
                   {"validation_pairs", validation.size()}};
  material.train = std::make_unique<PairBatches>(std::move(train), options);
  options.shuffled = false;
  if (!validation.empty()) {
    material.validation =
        std::make_unique<PairBatches>(std::move(validation), options);
  }
}

void OpenLabelled(const TrainConfig& config, const ModelConfig& model,
                  Material& material) {
  if (!config.validation.empty()) {
    Refuse("training", "no validation files for classification",
           config.validation[0], "hold_out keeps some of data");
  }
  const std::vector<Path> files = ListFiles(config.data);
  LabelledTexts read =
      ReadLabelled(files, Framer(*material.tokenizer, model), config.sequence);
  std::vector<LabelledText> train, validation;
  const auto hold_out = static_cast<size_t>(config.hold_out);
  for (size_t i = 0; i < read.texts.size(); ++i) {
    const bool kept = hold_out > 0 && (i + 1) % hold_out == 0;
    (kept ? validation : train).push_back(std::move(read.texts[i]));
  }
  const auto classes = static_cast<int64_t>(read.labels.size());
  material.classifier.emplace(model, *material.store, classes);
  Json& json = material.files.config;
  json["architectures"] = {ClassifierArchitecture(model.model_type)};
  json["id2label"] = Json::object();
  json["label2id"] = Json::object();
  for (int64_t c = 0; c < classes; ++c) {
    json["id2label"][std::to_string(c)] = read.labels[c];
    json["label2id"][read.labels[c]] = c;
  }
  material.data = {{"hash", HashData(config, *material.tokenizer)},
                   {"files", config.data},
                   {"texts", train.size()},
                   {"validation_texts", validation.size()},
                   {"labels", read.labels}};
  material.train = std::make_unique<LabelledBatches>(
      std::move(train), model.causal, true, config.seed);
  if (!validation.empty()) {
    material.validation = std::make_unique<LabelledBatches>(
        std::move(validation), model.causal, false, config.seed);
  }
}

}  // namespace

TextBatchOptions BatchOptionsOf(const TrainConfig& config,
                                const ModelConfig& model,
                                const Tokenizer& tokenizer) {
  TextBatchOptions options;
  options.length = config.sequence;
  options.bos = BeginOfWindows(tokenizer, model);
  options.vocabulary = tokenizer.vocab_size();
  options.seed = config.seed;
  RepeatMixture& repeats = options.repeats;
  repeats.share = config.repeat_share;
  repeats.share_late = config.repeat_share_late;
  repeats.change = static_cast<int64_t>(
      config.repeat_change * static_cast<double>(config.steps * config.batch));
  repeats.min_period = config.repeat_min;
  repeats.max_period = config.repeat_max;
  repeats.random_share = config.repeat_random;
  if (config.task != TrainTask::kMaskedLm) return options;
  options.mask_share = config.mask_share;
  for (const char* name : {"[MASK]", "<mask>"}) {
    if (const auto id = tokenizer.Id(name)) options.mask = *id;
  }
  if (options.mask < 0) {
    Refuse("training", "a tokenizer with [MASK] or <mask>", "none",
           "headwise vocab --kind words makes one");
  }
  const TokenFrame frame = FrameOf(tokenizer, model);
  if (!frame.after.empty()) options.eos = frame.after.back();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    options.unguessed.push_back(tokenizer.IsSpecial(id) ||
                                tokenizer.unknown() == id);
  }
  options.sentence_share = config.sentence_share;
  for (const char* end : {".", "!", "?"}) {
    if (const auto id = tokenizer.Id(end)) options.sentence_ends.push_back(*id);
  }
  if (options.sentence_share > 0 && options.sentence_ends.empty()) {
    Refuse("training", "a tokenizer with . ! or ? for sentence_share", "none");
  }
  return options;
}

Material OpenMaterial(Context& context, DType type, const TrainConfig& config,
                      const OnProgress& progress) {
  Material material;
  const Path tokenizer =
      config.tokenizer.empty() ? config.start : config.tokenizer;
  material.tokenizer = Tokenizer::Load(tokenizer);
  std::error_code ignored;
  const Path file = std::filesystem::is_directory(tokenizer, ignored)
                        ? tokenizer / "tokenizer.json"
                        : tokenizer;
  if (file.extension() == ".json" && std::filesystem::exists(file, ignored)) {
    material.files.tokenizer = file;
  }
  material.files.config = ModelJson(config, *material.tokenizer);
  const ModelConfig model =
      ReadConfig(material.files.config, "the model's configuration");
  CheckFit(config, model, *material.tokenizer);
  material.files.tokenizer_config = TokenizerJson(*material.tokenizer, model);
  const StorePlace place = {.device = context.device(), .compute = type};
  if (config.start.empty()) {
    Initialisation how;
    how.seed = config.seed;
    how.deviation = static_cast<float>(config.init_deviation);
    how.scale_residual = config.init_scale_residual;
    material.store = ParameterStore::Fresh(model, how, place);
  } else {
    material.store = ParameterStore::Load(config.start, place);
    if (!config.heads.empty()) material.store->AllowNew(model, "headwise.");
  }
  material.model = BuildModel(model, material.store, type);
  if (!config.freeze.empty()) {
    material.store->Freeze(ParametersOf(*material.model, config.freeze));
    material.model = BuildModel(model, material.store, type);
  }
  switch (config.task) {
    case TrainTask::kTranslation:
      OpenPairs(config, model, material);
      break;
    case TrainTask::kClassification:
      OpenLabelled(config, model, material);
      break;
    case TrainTask::kCausalLm:
    case TrainTask::kMaskedLm:
      OpenText(context, config, progress, material);
      break;
  }
  const auto& entries = material.store->entries();
  if (std::none_of(entries.begin(), entries.end(), [](const auto& entry) {
        return static_cast<bool>(entry.second.gradient);
      })) {
    Refuse("training", "something that learns", "freeze names every part");
  }
  return material;
}

}  // namespace headwise
