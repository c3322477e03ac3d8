// The planted model's weights. Door: planted.h.
//
// The residual stream is cut into blocks of 32 numbers. Tokens and positions
// are codes of ±1, so that "is it the same?" is a dot product: 32 for a code
// with itself, at most 8 with another. A head that matches reads one code as
// its query and another as its key; one that moves a token reads the token's
// code and writes it into another block.
#include "headwise/model/planted.h"

#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/tensor/half.h"
#include "headwise/tokenizer/bpe_trainer.h"
#include "headwise/tokenizer/tokenizer_json.h"

namespace headwise {
namespace {

constexpr int64_t kCode = 32;  // also head_dim
constexpr int64_t kHeads = 8;
constexpr int64_t kLayers = 2;
constexpr int64_t kWidth = kHeads * kCode;
constexpr int64_t kVocabulary = 512;
constexpr int64_t kContext = 512;
constexpr int64_t kInner = 8;  // of a feed-forward half that does nothing

enum Part : int64_t {
  kToken,      // this token
  kPosition,   // this position
  kBefore,     // the position before
  kBefore2,    // two before
  kPrevious,   // the previous token; empty until layer 0 writes it
  kPredicted,  // what the vocabulary head reads
  kScratch,    // what nothing reads
  kMarks,
};

// Numbers of kMarks. Marks come in pairs of opposite sign: the norm subtracts
// the mean.
constexpr int64_t kFirst = 0;   // 4: position 0
constexpr int64_t kBos = 4;     // 4: the token <bos>
constexpr int64_t kPoint = 8;   // 2: punctuation
constexpr int64_t kOne = 10;    // 1 after the final norm, for the frequencies
constexpr int64_t kWaves = 16;  // 10: cosine and sine of five periods
constexpr std::array<double, 5> kPeriods = {16, 40, 100, 256, 600};

// Where a head keeps its match with the first position; codes then use the 31
// numbers before it.
constexpr int64_t kSinkDim = kCode - 1;

// Product in the field of 32 elements, modulo x⁵ + x² + 1.
int Times(int a, int b) {
  int product = 0;
  for (int bit = 0; bit < 5; ++bit) {
    if ((b >> bit & 1) != 0) product ^= a << bit;
  }
  for (int bit = 9; bit >= 5; --bit) {
    if ((product >> bit & 1) != 0) product ^= 0b100101 << (bit - 5);
  }
  return product;
}

int Trace(int a) {
  int sum = 0;
  for (int i = 0; i < 5; ++i) {
    sum ^= a;
    a = Times(a, a);
  }
  return sum & 1;
}

using Code = std::array<float, kCode>;

// Gold's sequences (−1)^Tr(a·x³ + b·x) that have as many 1 as −1: 527 codes
// whose products with each other are 0 or ±8 (Gold 1968).
std::vector<Code> Codes() {
  std::vector<Code> codes;
  for (int a = 0; a < kCode; ++a) {
    for (int b = 0; b < kCode; ++b) {
      Code code;
      float sum = 0;
      for (int x = 0; x < kCode; ++x) {
        const int cube = Times(x, Times(x, x));
        code[x] = Trace(Times(a, cube) ^ Times(b, x)) != 0 ? -1.0f : 1.0f;
        sum += code[x];
      }
      if (sum == 0) codes.push_back(code);
    }
  }
  return codes;
}

struct Matrix {
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(r * c) {}
  float& At(int64_t row, int64_t column) {
    return values[row * columns + column];
  }
  void Put(int64_t row, int64_t block, const Code& code, float scale = 1) {
    for (int64_t i = 0; i < kCode; ++i) {
      At(row, block * kCode + i) = scale * code[i];
    }
  }
  int64_t rows, columns;
  std::vector<float> values;
};

constexpr int64_t Mark(int64_t mark) { return kMarks * kCode + mark; }

// One layer's attention, written head by head.
class Layer {
 public:
  enum Side : int64_t { kQuery, kKey, kValue };

  // head number i reads number i of `block`, times w.
  void Read(int64_t head, Side side, int64_t block, float w,
            int64_t count = kCode) {
    for (int64_t i = 0; i < count; ++i) {
      One(head, side, i, block * kCode + i, w);
    }
  }
  void One(int64_t head, Side side, int64_t dim, int64_t from, float w) {
    fused.At(from, side * kWidth + head * kCode + dim) = w;
  }
  void Write(int64_t head, int64_t block, float w) {
    for (int64_t i = 0; i < kCode; ++i) {
      output.At(head * kCode + i, block * kCode + i) = w;
    }
  }
  // Moves the token's code, times w, from where the head looks.
  void Move(int64_t head, int64_t to, float w) {
    Read(head, kValue, kToken, 1);
    Write(head, to, w);
  }
  // Where `query` of the reader equals `key` of what is read: a score of about
  // 10 w². 31 numbers, so that Sink may follow.
  void Match(int64_t head, int64_t query, int64_t key, float w) {
    Read(head, kQuery, query, w, kSinkDim);
    Read(head, kKey, key, w, kSinkDim);
  }
  // Adds a score of about 2·w to the first position.
  void Sink(int64_t head, float w) {
    bias.At(0, kQuery * kWidth + head * kCode + kSinkDim) = w;
    for (int64_t i = 0; i < 4; ++i) {
      One(head, kKey, kSinkDim, Mark(kFirst + i), i < 2 ? 1.0f : -1.0f);
    }
  }

  Matrix fused{kWidth, 3 * kWidth};
  Matrix bias{1, 3 * kWidth};
  Matrix output{kWidth, kWidth};
};

// Nearness by waves: Σ cos(ω(i − j − 2)) is flat over the four tokens before
// and falls beyond; what the tokens are decides among them.
void Local(Layer& layer, int64_t head) {
  constexpr double kShift = 2;
  constexpr float kWave = 2.5, kTaste = 0.75;
  for (size_t f = 0; f < kPeriods.size(); ++f) {
    const double turn = 2 * std::numbers::pi * kShift / kPeriods[f];
    const auto c = static_cast<float>(kWave * std::cos(turn));
    const auto s = static_cast<float>(kWave * std::sin(turn));
    const auto dim = static_cast<int64_t>(2 * f);
    const int64_t cosine = Mark(kWaves) + dim, sine = cosine + 1;
    layer.One(head, Layer::kQuery, dim, cosine, c);
    layer.One(head, Layer::kQuery, dim, sine, s);
    layer.One(head, Layer::kQuery, dim + 1, sine, c);
    layer.One(head, Layer::kQuery, dim + 1, cosine, -s);
    layer.One(head, Layer::kKey, dim, cosine, kWave);
    layer.One(head, Layer::kKey, dim + 1, sine, kWave);
  }
  for (int64_t i = 16; i < kCode; ++i) {
    layer.One(head, Layer::kQuery, i, kToken * kCode + i, kTaste);
    layer.One(head, Layer::kKey, i, kToken * kCode + (i * 5 + 3) % kCode,
              kTaste);
  }
  layer.Move(head, kScratch, 0.25f);
}

// Scores that depend on both tokens in no useful way.
void Noise(Layer& layer, int64_t head, int64_t step) {
  layer.Read(head, Layer::kQuery, kToken, 1.25f);
  for (int64_t i = 0; i < kCode; ++i) {
    layer.One(head, Layer::kKey, i, kToken * kCode + (i * step + 1) % kCode,
              1.25f);
  }
  layer.Read(head, Layer::kValue, kPosition, 1);
  layer.Write(head, kScratch, 0.125f);
}

Layer FirstLayer() {
  Layer layer;
  layer.Match(0, kBefore, kPosition, 2);
  layer.Move(0, kPrevious, 0.75f);
  Local(layer, kPlantedTwins.first);
  Local(layer, kPlantedTwins.second);
  layer.Sink(3, 10);
  layer.Read(3, Layer::kValue, kPosition, 1);
  layer.Write(3, kScratch, 0.125f);
  Noise(layer, 4, 7);
  layer.Read(4, Layer::kValue, kPosition, 0);
  layer.Write(4, kScratch, 0);
  layer.Match(5, kToken, kToken, 2);
  layer.Move(5, kScratch, 0.125f);
  layer.Match(6, kBefore2, kPosition, 2);
  layer.Move(6, kScratch, 0.125f);
  Noise(layer, 7, 11);
  return layer;
}

Layer SecondLayer() {
  Layer layer;
  layer.Match(0, kToken, kPrevious, 2);
  layer.Sink(0, 11);
  layer.Move(0, kPredicted, 1);
  layer.Match(1, kPosition, kPosition, 2);
  layer.Move(1, kPredicted, 0.5f);
  layer.bias.At(0, 2 * kCode) = 5;
  layer.One(2, Layer::kKey, 0, Mark(kPoint), 8);
  layer.One(2, Layer::kKey, 0, Mark(kPoint + 1), -8);
  layer.Sink(2, 4);
  layer.Move(2, kScratch, 0.125f);
  layer.Match(3, kBefore, kPosition, 1.25f);
  layer.Sink(3, 7.5f);
  layer.Move(3, kScratch, 0.125f);
  layer.Match(4, kToken, kPrevious, 1);
  layer.Sink(4, 4);
  layer.Move(4, kPredicted, 0.5f);
  layer.Move(5, kScratch, 0.25f);
  layer.Sink(6, 10);
  layer.Read(6, Layer::kValue, kPosition, 1);
  layer.Write(6, kScratch, 0.125f);
  Noise(layer, 7, 13);
  return layer;
}

// [vocabulary, width]: each token's code and marks.
Matrix TokenTable(const Tokenizer& tokenizer, const std::vector<Code>& codes) {
  Matrix table(kVocabulary, kWidth);
  for (TokenId id = 0; id < kVocabulary; ++id) {
    if (tokenizer.IsSpecial(id)) {
      for (int64_t i = 0; i < 4; ++i) {
        table.At(id, Mark(kBos + i)) = i < 2 ? 2.0f : -2.0f;
      }
      continue;
    }
    table.Put(id, kToken, codes[id]);
    const std::vector<TokenId> ids = {id};
    const std::string text = tokenizer.Decode(ids);
    if (!text.empty() &&
        text.find_first_not_of(" .,;:!?\"'()-") == std::string::npos &&
        text != " ") {
      table.At(id, Mark(kPoint)) = 1;
      table.At(id, Mark(kPoint + 1)) = -1;
    }
  }
  return table;
}

// [context, width]
Matrix PositionTable(const std::vector<Code>& codes) {
  Matrix table(kContext, kWidth);
  for (int64_t i = 0; i < kContext; ++i) {
    table.Put(i, kBefore2, codes[i]);
    table.Put(i, kBefore, codes[i + 1]);
    table.Put(i, kPosition, codes[i + 2]);
    for (size_t f = 0; f < kPeriods.size(); ++f) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(i) / kPeriods[f];
      const int64_t at = Mark(kWaves) + static_cast<int64_t>(2 * f);
      table.At(i, at) = static_cast<float>(std::cos(angle));
      table.At(i, at + 1) = static_cast<float>(std::sin(angle));
    }
  }
  for (int64_t i = 0; i < 4; ++i) {
    table.At(0, Mark(kFirst + i)) = i < 2 ? 2.0f : -2.0f;
  }
  return table;
}

// [vocabulary, width]: logits of what stands in kPredicted, and how frequent
// each token is in the text, as ln p to an eighth.
Matrix VocabularyTable(const Tokenizer& tokenizer, std::string_view text,
                       const std::vector<Code>& codes) {
  constexpr float kLogit = 0.078125f;  // a whole prediction adds about 3
  // Added to every count: the text is too short to trust, and a repeated
  // token must be able to overtake the frequent ones.
  constexpr int64_t kUnseen = 6;
  const Encoding encoding =
      tokenizer.Encode(text, {.add_special_tokens = false});
  std::vector<int64_t> counts(kVocabulary, kUnseen);
  for (const TokenId id : encoding.ids) ++counts[id];
  const double total =
      static_cast<double>(encoding.size() + kUnseen * kVocabulary);
  Matrix table(kVocabulary, kWidth);
  for (TokenId id = 0; id < kVocabulary; ++id) {
    if (!tokenizer.IsSpecial(id)) table.Put(id, kPredicted, codes[id], kLogit);
    const double log = std::log(static_cast<double>(counts[id]) / total);
    table.At(id, Mark(kOne)) = static_cast<float>(std::round(8 * log) / 8);
  }
  return table;
}

// Named matrices as bf16, and their file.
class Weights {
 public:
  void Add(const std::string& name, const Matrix& matrix) {
    Add(name, matrix.values, {matrix.rows, matrix.columns});
  }
  void AddVector(const std::string& name, const std::vector<float>& values) {
    Add(name, values, {static_cast<int64_t>(values.size())});
  }
  void AddNorm(const std::string& name, const std::vector<float>& weight,
               const std::vector<float>& bias) {
    AddVector(name + ".weight", weight);
    AddVector(name + ".bias", bias);
  }
  void Write(const std::filesystem::path& path) const {
    std::vector<NamedTensor> named;
    for (const Entry& entry : entries_) {
      named.push_back({entry.name, ConstTensorView(entry.values.data(),
                                                   DType::kBF16, entry.shape)});
    }
    WriteSafetensors(path, named, {{"format", "pt"}});
  }

 private:
  struct Entry {
    std::string name;
    Shape shape;
    std::vector<uint16_t> values;
  };
  void Add(const std::string& name, const std::vector<float>& values,
           const Shape& shape) {
    Entry& entry = entries_.emplace_back(Entry{name, shape, {}});
    for (const float value : values) entry.values.push_back(ToBf16(value));
  }

  std::vector<Entry> entries_;
};

void AddLayer(Weights& weights, int64_t index, const Layer& layer) {
  const std::string name = "transformer.h." + std::to_string(index) + ".";
  const std::vector<float> ones(kWidth, 1), zeros(kWidth, 0);
  weights.AddNorm(name + "ln_1", ones, zeros);
  weights.Add(name + "attn.c_attn.weight", layer.fused);
  weights.AddVector(name + "attn.c_attn.bias", layer.bias.values);
  weights.Add(name + "attn.c_proj.weight", layer.output);
  weights.AddVector(name + "attn.c_proj.bias", zeros);
  weights.AddNorm(name + "ln_2", ones, zeros);
  weights.Add(name + "mlp.c_fc.weight", Matrix(kWidth, kInner));
  weights.AddVector(name + "mlp.c_fc.bias", std::vector<float>(kInner));
  weights.Add(name + "mlp.c_proj.weight", Matrix(kInner, kWidth));
  weights.AddVector(name + "mlp.c_proj.bias", zeros);
}

std::string ConfigText() {
  const Json config = {{"architectures", {"GPT2LMHeadModel"}},
                       {"model_type", "gpt2"},
                       {"vocab_size", kVocabulary},
                       {"n_positions", kContext},
                       {"n_embd", kWidth},
                       {"n_layer", kLayers},
                       {"n_head", kHeads},
                       {"n_inner", kInner},
                       {"activation_function", "gelu_new"},
                       {"layer_norm_epsilon", 1e-5},
                       {"tie_word_embeddings", false},
                       {"bos_token_id", 0},
                       {"torch_dtype", "bfloat16"}};
  return config.dump(2) + "\n";
}

constexpr PlantedHead kTruth[] = {
    {0, 0, "previous-token", PlantedEffect::kHelpful,
     "writes the previous token, which 1.0 and 1.4 read as keys"},
    {0, 1, "local", PlantedEffect::kSlight, "twin of 0.2"},
    {0, 2, "local", PlantedEffect::kSlight, "twin of 0.1"},
    {0, 3, "first-token", PlantedEffect::kSlight, "sink"},
    {0, 4, "", PlantedEffect::kNone, "dead: W_V and W_O are zero"},
    {0, 5, "duplicate", PlantedEffect::kSlight,
     "earlier copies of the token, and itself"},
    {0, 6, "offset", PlantedEffect::kSlight, "two tokens before"},
    {0, 7, "", PlantedEffect::kSlight, "noise"},
    {1, 0, "induction", PlantedEffect::kHelpful,
     "K-composition with 0.0; predicts what it reads"},
    {1, 1, "self", PlantedEffect::kHarmful, "predicts the token again"},
    {1, 2, "delimiter", PlantedEffect::kSlight,
     "punctuation; the first token before any"},
    {1, 3, "previous-token", PlantedEffect::kSlight,
     "when not at the sink, where most of its mass is"},
    {1, 4, "induction", PlantedEffect::kHelpful, "weaker than 1.0"},
    {1, 5, "", PlantedEffect::kSlight, "all it sees, evenly, as by chance"},
    {1, 6, "first-token", PlantedEffect::kSlight, "sink"},
    {1, 7, "", PlantedEffect::kSlight, "noise"},
};

}  // namespace

std::span<const PlantedHead> PlantedTruth() { return kTruth; }

void WritePlantedModel(const std::filesystem::path& text,
                       const std::filesystem::path& folder) {
  VocabularyJob training;
  training.size = kVocabulary;
  TextSource texts({text.string()});
  const std::string file = TrainByteLevelBpe(texts, training);
  const auto tokenizer = ParseTokenizerJson(file, "tokenizer.json");
  if (tokenizer->vocab_size() != kVocabulary) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {text.string(), "a text that gives 512 tokens",
         std::to_string(tokenizer->vocab_size()), "take a longer text"});
  }
  const std::vector<Code> codes = Codes();
  Weights weights;
  weights.Add("transformer.wte.weight", TokenTable(*tokenizer, codes));
  weights.Add("transformer.wpe.weight", PositionTable(codes));
  AddLayer(weights, 0, FirstLayer());
  AddLayer(weights, 1, SecondLayer());
  std::vector<float> final_weight(kWidth, 1), final_bias(kWidth, 0);
  final_weight[Mark(kOne)] = 0;
  final_bias[Mark(kOne)] = 1;
  weights.AddNorm("transformer.ln_f", final_weight, final_bias);
  weights.Add("lm_head.weight",
              VocabularyTable(*tokenizer, MappedFile(text).text(), codes));
  WriteFileAtomically(folder / "config.json", ConfigText());
  WriteFileAtomically(folder / "tokenizer.json", file);
  weights.Write(folder / "model.safetensors");
}

}  // namespace headwise
