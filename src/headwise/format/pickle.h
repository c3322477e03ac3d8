// A reader of pickles that runs nothing: of the machine that pickles are
// programs of it knows what torch.save of a state_dict writes (protocol 2), and
// of Python's callables five. Whatever else is refused by the name of its
// opcode or global and its byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

enum class PickleKind : uint8_t {
  kNone,
  kNumber,  // integers and truth values
  kReal,    // a float, which nobody reads
  kText,
  kTuple,    // items
  kList,     // items
  kDict,     // items: key, value, key, value, …
  kGlobal,   // text: "torch FloatStorage"
  kStorage,  // items: its type as a global, key, place, number of elements
  kTensor,   // items: storage, offset, sizes, strides
};

// Nodes are shared, and may hold themselves: look at a known depth only.
struct PickleNode {
  PickleKind kind = PickleKind::kNone;
  int64_t number = 0;
  std::string_view text = {};  // into the pickle
  std::vector<const PickleNode*> items = {};
};

// What one pickle makes. Borrows its bytes.
class Pickle {
 public:
  // first_byte: where the bytes begin in the file that `where` names, for
  // errors. Throws Error: kCorrupt for what is no pickle, kUnsupported for
  // opcodes and globals that are refused. Takes no more memory than some
  // hundred times the bytes, and no more than for kMostPickleBytes.
  Pickle(std::string_view bytes, std::string where, uint64_t first_byte);

  const PickleNode& root() const { return *root_; }

 private:
  class Reader;
  std::deque<PickleNode> nodes_;
  const PickleNode* root_ = nullptr;
};

// Of the largest models' data.pkl there is less than a tenth.
inline constexpr size_t kMostPickleBytes = size_t{1} << 23;

}  // namespace headwise
