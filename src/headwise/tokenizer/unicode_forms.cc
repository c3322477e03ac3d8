// Decomposition, reordering and composition over utf8proc's tables. Written
// out instead of calling its normaliser, since that loses which character came
// from which. Door: unicode_forms.h.
#include "headwise/tokenizer/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>

#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

using Changes = std::vector<CharacterChange>;

// The longest compatibility decomposition (U+FDFA) has 18 characters.
constexpr int kMaxDecomposition = 32;
// Nothing below the first combining mark composes with what precedes it.
constexpr char32_t kFirstCombining = 0x300;

int CombiningClass(char32_t c) {
  if (c < kFirstCombining) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))
      ->combining_class;
}

// Characters with their decompositions in canonical order: the first of a
// decomposition takes the old one's place, the others are new beside it.
Changes Decompose(std::string_view text, bool compatible) {
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                     (compatible ? UTF8PROC_COMPAT : 0));
  Changes changes;
  changes.reserve(text.size());
  size_t run = 0;  // where the present run of combining marks began
  const auto close_run = [&](size_t end) {
    std::stable_sort(changes.begin() + run, changes.begin() + end,
                     [](const CharacterChange& a, const CharacterChange& b) {
                       return CombiningClass(a.value) < CombiningClass(b.value);
                     });
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint next = CharacterAt(text, at);
    at += next.bytes;
    std::array<utf8proc_int32_t, kMaxDecomposition> parts;
    utf8proc_ssize_t count = 1;
    parts[0] = static_cast<utf8proc_int32_t>(next.value);
    if (next.value >= 0x80) {
      count = utf8proc_decompose_char(parts[0], parts.data(), kMaxDecomposition,
                                      options, nullptr);
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[i]);
      changes.push_back({part, i > 0});
      if (CombiningClass(part) == 0) {
        close_run(changes.size() - 1);
        run = changes.size();
      }
    }
  }
  close_run(changes.size());
  return changes;
}

std::optional<char32_t> ComposePair(char32_t first, char32_t second) {
  if (second < kFirstCombining) return std::nullopt;
  std::array<utf8proc_int32_t, 3> pair = {static_cast<utf8proc_int32_t>(first),
                                          static_cast<utf8proc_int32_t>(second),
                                          0};
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(
      pair.data(), 2,
      static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (length != 1) return std::nullopt;
  return static_cast<char32_t>(pair[0]);
}

// Canonical composition: each mark joins the last starter unless a mark of
// its own class or a higher one stands between. The joined character takes
// the place of both, which is why its change is one less than their sum.
Changes Compose(const Changes& decomposed) {
  Changes composed;
  composed.reserve(decomposed.size());
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone;
  int last_class = -1;  // of the marks kept since the starter; -1: none
  for (const CharacterChange& next : decomposed) {
    const int combining = CombiningClass(next.value);
    if (starter != kNone && last_class < combining) {
      if (const auto joined =
              ComposePair(composed[starter].value, next.value)) {
        composed[starter] = {*joined,
                             composed[starter].change + next.change - 1};
        continue;
      }
    }
    composed.push_back(next);
    if (combining == 0) {
      starter = composed.size() - 1;
      last_class = -1;
    } else {
      last_class = combining;
    }
  }
  return composed;
}

}  // namespace

AlignedText ToUnicodeForm(const AlignedText& text, UnicodeForm form) {
  const bool is_ascii = std::all_of(
      text.text().begin(), text.text().end(),
      [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
  if (is_ascii) return text;
  const bool compatible =
      form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  Changes changes = Decompose(text.text(), compatible);
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) {
    changes = Compose(changes);
  }
  return text.Changed(changes);
}

}  // namespace headwise
