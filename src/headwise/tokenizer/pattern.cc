// Patterns over PCRE2 with its just-in-time compiler. Door: pattern.h.
#include "headwise/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

// Steps of backtracking at one place before a pattern is called hostile: many
// times what going once through the text takes. PCRE2 counts anew at each
// place, so what a text may take in all is a matter of time.
constexpr size_t kFreeSteps = 10'000;
constexpr size_t kStepsPerByte = 16;
constexpr size_t kMaxSteps = 2'000'000;

// Places that one search goes through before the clock may be looked at.
constexpr size_t kStepsPerSearch = 4'000'000;
constexpr size_t kLeastPlaces = 8;

uint32_t MostSteps(size_t text_bytes) {
  return static_cast<uint32_t>(
      std::min(kMaxSteps, kFreeSteps + kStepsPerByte * text_bytes));
}

// Members of \s and \w as Oniguruma and Rust have them: PCRE2 counts U+180E
// as a space and leaves marks out of words.
constexpr const char* kSpaces =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F})"
    R"(\x{205F}\x{3000})";
constexpr const char* kWords =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9})"
    R"(\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

// One escape of the source dialect in PCRE2's, or "" to keep it as it is.
std::string TranslateEscape(char letter, bool in_class) {
  const auto class_of = [&](const char* members, bool negated) {
    if (in_class) return negated ? std::string() : std::string(members);
    return std::string(negated ? "[^" : "[") + members + "]";
  };
  switch (letter) {
    case 's':
      return class_of(kSpaces, false);
    case 'S':
      return class_of(kSpaces, true);
    case 'w':
      return class_of(kWords, false);
    case 'W':
      return class_of(kWords, true);
    case 'h':
      return class_of("0-9a-fA-F", false);
    default:
      return "";
  }
}

std::string Translate(const std::string& expression, const std::string& where) {
  std::string result;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const std::string two = expression.substr(i, 2);
    if (c == '\\' && two.size() == 2) {
      const std::string translated = TranslateEscape(two[1], in_class);
      result += translated.empty() ? two : translated;
      ++i;
      continue;
    }
    // PCRE2 would read sets within sets as plain characters.
    if (in_class && two == "[:") {
      const size_t end = expression.find(":]", i);
      if (end != std::string::npos) {
        result += expression.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
    } else if (in_class && (c == '[' || two == "&&")) {
      throw Error(ErrorCode::kUnsupported,
                  {where, "an expression without sets inside sets",
                   "\"" + two + "\" at byte " + std::to_string(i), ""});
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    result += c;
  }
  return result;
}

void AddMatch(std::vector<Match>& matches, size_t& done, Range range) {
  if (range.begin > done) matches.push_back({{done, range.begin}, false});
  matches.push_back({range, true});
  done = range.end;
}

void AddRest(std::vector<Match>& matches, size_t done, size_t size) {
  if (size > done) matches.push_back({{done, size}, false});
}

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const {
    pcre2_match_context_free(context);
  }
};

}  // namespace

struct Pattern::Compiled {
  std::string where;
  pcre2_code* code = nullptr;

  ~Compiled() { pcre2_code_free(code); }

  [[noreturn]] void Fail(int error) const {
    PCRE2_UCHAR text[128] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    throw Error(ErrorCode::kUnsupported,
                {where, "an expression that PCRE2 can run",
                 reinterpret_cast<const char*>(text), ""});
  }
};

namespace {

// One expression going through one text.
template <typename Compiled>
class Search {
 public:
  Search(const Compiled& compiled, std::string_view text,
         const WorkBudget& budget)
      : compiled_(compiled),
        text_(text),
        budget_(budget),
        data_(pcre2_match_data_create_from_pattern(compiled.code, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (data_ == nullptr || context_ == nullptr) {
      compiled_.Fail(PCRE2_ERROR_NOMEMORY);
    }
    const uint32_t steps = MostSteps(text.size());
    pcre2_set_match_limit(context_.get(), steps);
    places_ = std::max(kLeastPlaces, kStepsPerSearch / steps);
  }

  // The first match at or after `from`; false where there is none.
  bool Next(size_t from) {
    while (from < text_.size()) {
      budget_.CheckTime();
      const size_t last = std::min(text_.size(), from + places_);
      pcre2_set_offset_limit(context_.get(), last);
      if (Run(from)) return true;
      from = last + 1;
      while (from < text_.size() && IsContinuation(text_[from])) ++from;
    }
    return false;
  }
  Range found() const {
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
    return {bounds[0], bounds[1]};
  }

 private:
  static bool IsContinuation(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
  }

  bool Run(size_t from) {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
    const auto run = [&](uint32_t options) {
      return pcre2_match(compiled_.code, subject, text_.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data_.get(),
                         context_.get());
    };
    int result = run(0);
    // The interpreter keeps its backtracking on the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) compiled_.Fail(result);
    return true;
  }

  const Compiled& compiled_;
  std::string_view text_;
  const WorkBudget& budget_;
  std::unique_ptr<pcre2_match_data, FreeMatchData> data_;
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context_;
  size_t places_;
};

}  // namespace

Pattern Pattern::Literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::Regex(const std::string& expression,
                       const std::string& where) {
  const std::string translated = Translate(expression, where);
  auto compiled = std::make_shared<Compiled>();
  compiled->where = where;
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
      &error, &offset, nullptr);
  if (compiled->code == nullptr) compiled->Fail(error);
  // Without a just-in-time compiler the interpreter does the same.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  Pattern pattern;
  pattern.compiled_ = std::move(compiled);
  return pattern;
}

Pattern Pattern::FromJson(const JsonCursor& json) {
  if (const auto text = json.value().is_string() ? json : json.Find("String")) {
    if (text->String().empty()) text->Fail("a text to look for");
    return Literal(text->String());
  }
  const JsonCursor regex = json["Regex"];
  return Regex(regex.String(), regex.where());
}

std::vector<Match> Pattern::Cut(std::string_view text,
                                const WorkBudget* budget) const {
  if (compiled_ != nullptr) {
    return CutByExpression(
        text, budget != nullptr ? *budget : WorkBudget(text.size()));
  }
  std::vector<Match> matches;
  size_t done = 0;
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    AddMatch(matches, done, {at, at + literal_.size()});
  }
  AddRest(matches, done, text.size());
  return matches;
}

std::vector<Match> Pattern::CutByExpression(std::string_view text,
                                            const WorkBudget& budget) const {
  std::vector<Match> matches;
  size_t done = 0;
  Search search(*compiled_, text, budget);
  for (size_t from = 0; search.Next(from);) {
    const Range range = search.found();
    // \K can put the start behind the end or before what is already cut. An
    // empty match cuts the text in two, but not again where a match ended.
    const bool usable = range.begin <= range.end && range.begin >= done;
    if (usable && (range.size() > 0 || range.begin > done)) {
      AddMatch(matches, done, range);
    }
    from = usable && range.size() > 0
               ? range.end
               : std::max(from, usable ? range.begin : from);
    if (!usable || range.size() == 0) {
      if (from == text.size()) break;
      from += CharacterAt(text, from).bytes;
    }
  }
  AddRest(matches, done, text.size());
  return matches;
}

std::vector<Match> CutAtCharacters(
    std::string_view text, const std::function<bool(char32_t)>& is_match) {
  std::vector<Match> matches;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint next = CharacterAt(text, at);
    if (is_match(next.value)) AddMatch(matches, done, {at, at + next.bytes});
    at += next.bytes;
  }
  AddRest(matches, done, text.size());
  return matches;
}

}  // namespace headwise
