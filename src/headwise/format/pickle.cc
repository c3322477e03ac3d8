// The machine of pickles, as far as it is known here. Door: pickle.h.
#include "headwise/format/pickle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Opcodes by their names in Python's pickletools, so that refusals name them.
struct OpcodeName {
  unsigned char code;
  const char* name;
};
constexpr OpcodeName kOpcodes[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID"},
    {'Q', "BINPERSID"},
    {'R', "REDUCE"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD"},
    {'c', "GLOBAL"},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST"},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {0x80, "PROTO"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {0x8a, "LONG1"},
    {0x8b, "LONG4"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

std::string NameOfOpcode(unsigned char code) {
  for (const OpcodeName& one : kOpcodes) {
    if (one.code == code) return one.name;
  }
  return "byte " + std::to_string(code);
}

constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr std::string_view kTensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kParameter = "torch._utils _rebuild_parameter";
constexpr int64_t kProtocol = 2;

// "torch FloatStorage"
bool IsStorageType(std::string_view global) {
  return global.starts_with("torch ") && global.ends_with("Storage") &&
         global.find_first_of("._") == global.npos;
}

}  // namespace

class Pickle::Reader {
 public:
  Reader(Pickle& made, std::string_view bytes, std::string where,
         uint64_t first_byte)
      : made_(made),
        bytes_(bytes),
        where_(std::move(where)),
        first_byte_(first_byte) {}

  const PickleNode* Run() {
    if (bytes_.size() > kMostPickleBytes) {
      Corrupt("at most " + std::to_string(kMostPickleBytes) + " bytes",
              std::to_string(bytes_.size()));
    }
    for (;;) {
      begin_ = at_;
      const auto code = static_cast<unsigned char>(Take(1)[0]);
      if (code == '.') return Pop();
      if (!Constant(code) && !Memo(code) && !Collection(code) && !Call(code)) {
        Refuse("opcode " + NameOfOpcode(code));
      }
    }
  }

 private:
  [[noreturn]] void Fail(ErrorCode code, const std::string& expected,
                         const std::string& found,
                         const std::string& hint) const {
    throw Error(code,
                {where_ + ": byte " + std::to_string(first_byte_ + begin_),
                 expected, found, hint});
  }
  [[noreturn]] void Corrupt(const std::string& expected,
                            const std::string& found) const {
    Fail(ErrorCode::kCorrupt, expected, found, "");
  }
  [[noreturn]] void Refuse(const std::string& found) const {
    Fail(ErrorCode::kUnsupported,
         "a pickle that torch.save made of a state_dict", found,
         "nothing of it was run; take a safetensors file");
  }

  // ---- Bytes.

  std::string_view Take(size_t count) {
    if (bytes_.size() - at_ < count) {
      Corrupt(std::to_string(count) + " bytes more", "the end of the pickle");
    }
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  // Little-endian, unsigned.
  uint64_t TakeNumber(size_t count) {
    uint64_t value = 0;
    const std::string_view digits = Take(count);
    for (size_t i = 0; i < count; ++i) {
      value |= uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    }
    return value;
  }
  std::string_view TakeLine() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) Corrupt("the end of a line", "none");
    const std::string_view line = Take(end - at_);
    ++at_;
    return line;
  }

  // ---- The stack and the memo.

  PickleNode* Make(PickleKind kind) {
    PickleNode& node = made_.nodes_.emplace_back();
    node.kind = kind;
    return &node;
  }
  PickleNode* Push(PickleKind kind) {
    stack_.push_back(Make(kind));
    return stack_.back();
  }
  void PushNumber(int64_t value) { Push(PickleKind::kNumber)->number = value; }
  PickleNode* Pop() {
    RequireItems(1);
    PickleNode* node = stack_.back();
    stack_.pop_back();
    return node;
  }
  // Above the last mark.
  void RequireItems(size_t count) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) {
      Corrupt(std::to_string(count) + " values on the stack",
              std::to_string(stack_.size() - floor));
    }
  }
  // What is above the last mark, which goes.
  std::vector<const PickleNode*> PopMarked() {
    if (marks_.empty()) Corrupt("a mark", "none");
    const auto floor = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<const PickleNode*> items(floor, stack_.end());
    stack_.erase(floor, stack_.end());
    marks_.pop_back();
    return items;
  }
  PickleNode* Top(PickleKind kind, const char* expected) {
    RequireItems(1);
    if (stack_.back()->kind != kind) Corrupt(expected, "another value");
    return stack_.back();
  }
  void PushTuple(size_t count) {
    RequireItems(count);
    std::vector<const PickleNode*> items(
        stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    Push(PickleKind::kTuple)->items = std::move(items);
  }

  // ---- Opcodes, by what they do. False: not one of these.

  bool Constant(unsigned char code) {
    switch (code) {
      case 0x80:
        if (TakeNumber(1) != kProtocol) Refuse("a protocol other than 2");
        return true;
      case 'J':
        PushNumber(static_cast<int32_t>(TakeNumber(4)));
        return true;
      case 'K':
        PushNumber(static_cast<int64_t>(TakeNumber(1)));
        return true;
      case 'M':
        PushNumber(static_cast<int64_t>(TakeNumber(2)));
        return true;
      case 0x8a:
        PushLong(TakeNumber(1));
        return true;
      case 0x88:
      case 0x89:
        PushNumber(code == 0x88 ? 1 : 0);
        return true;
      case 'G':
        Take(8);
        Push(PickleKind::kReal);
        return true;
      case 'N':
        Push(PickleKind::kNone);
        return true;
      case 'X':
        Push(PickleKind::kText)->text = Take(TakeNumber(4));
        return true;
      default:
        return false;
    }
  }

  // Two's complement of any number of bytes, of which eight fit.
  void PushLong(uint64_t count) {
    if (count > sizeof(int64_t)) {
      Corrupt("an integer of 64 bits", std::to_string(8 * count) + " bits");
    }
    uint64_t value = TakeNumber(count);
    const bool negative = count > 0 && (value >> (8 * count - 1)) != 0;
    if (negative && count < sizeof(int64_t))
      value |= ~uint64_t{0} << (8 * count);
    PushNumber(static_cast<int64_t>(value));
  }

  bool Memo(unsigned char code) {
    switch (code) {
      case 'q':
      case 'r': {
        const uint64_t key = TakeNumber(code == 'q' ? 1 : 4);
        RequireItems(1);
        memo_[key] = stack_.back();
        return true;
      }
      case 'h':
      case 'j': {
        const auto found = memo_.find(TakeNumber(code == 'h' ? 1 : 4));
        if (found == memo_.end()) Corrupt("a value of the memo", "none");
        stack_.push_back(found->second);
        return true;
      }
      default:
        return false;
    }
  }

  bool Collection(unsigned char code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ')':
        Push(PickleKind::kTuple);
        return true;
      case ']':
        Push(PickleKind::kList);
        return true;
      case '}':
        Push(PickleKind::kDict);
        return true;
      case 't': {
        std::vector<const PickleNode*> items = PopMarked();
        Push(PickleKind::kTuple)->items = std::move(items);
        return true;
      }
      case 0x85:
      case 0x86:
      case 0x87:
        PushTuple(code - 0x84);
        return true;
      case 'a': {
        const PickleNode* item = Pop();
        Top(PickleKind::kList, "a list")->items.push_back(item);
        return true;
      }
      case 'e':
        Extend(PopMarked(), PickleKind::kList, "a list");
        return true;
      case 's': {
        RequireItems(2);
        const PickleNode* value = Pop();
        const PickleNode* key = Pop();
        Extend({key, value}, PickleKind::kDict, "a dictionary");
        return true;
      }
      case 'u': {
        const std::vector<const PickleNode*> items = PopMarked();
        if (items.size() % 2 != 0)
          Corrupt("a value for each key", "a key more");
        Extend(items, PickleKind::kDict, "a dictionary");
        return true;
      }
      default:
        return false;
    }
  }
  void Extend(const std::vector<const PickleNode*>& items, PickleKind kind,
              const char* expected) {
    PickleNode* to = Top(kind, expected);
    to->items.insert(to->items.end(), items.begin(), items.end());
  }

  bool Call(unsigned char code) {
    switch (code) {
      case 'c':
        PushGlobal();
        return true;
      case 'Q':
        PushStorage(Pop());
        return true;
      case 'R': {
        RequireItems(2);
        const PickleNode* arguments = Pop();
        Reduce(*Pop(), *arguments);
        return true;
      }
      case 'b': {
        // The attributes of an OrderedDict: notes on versions, which nobody
        // reads.
        const PickleNode* state = Pop();
        Top(PickleKind::kDict, "a dictionary to add attributes to");
        if (state->kind != PickleKind::kDict) Refuse("opcode BUILD");
        return true;
      }
      default:
        return false;
    }
  }

  void PushGlobal() {
    const size_t first = at_;
    const std::string_view module = TakeLine(), name = TakeLine();
    std::string global = std::string(module) + " " + std::string(name);
    if (global != kOrderedDict && global != kTensor && global != kParameter &&
        !IsStorageType(global)) {
      std::replace(global.begin(), global.end(), ' ', '.');
      Refuse("global " + global);
    }
    // The two lines, which a line's end divides.
    PickleNode* node = Push(PickleKind::kGlobal);
    node->text = bytes_.substr(first, module.size() + 1 + name.size());
  }
  static bool Is(const PickleNode& node, std::string_view global) {
    if (node.kind != PickleKind::kGlobal || node.text.size() != global.size()) {
      return false;
    }
    return std::equal(
        global.begin(), global.end(), node.text.begin(),
        [](char want, char is) { return want == (is == '\n' ? ' ' : is); });
  }

  // ("storage", type, key, place, number of elements)
  void PushStorage(const PickleNode* id) {
    const auto& items = id->items;
    if (id->kind != PickleKind::kTuple || items.size() != 5 ||
        items[0]->kind != PickleKind::kText || items[0]->text != "storage" ||
        items[1]->kind != PickleKind::kGlobal ||
        items[2]->kind != PickleKind::kText ||
        items[4]->kind != PickleKind::kNumber) {
      Refuse("opcode BINPERSID of something that is no storage");
    }
    std::vector<const PickleNode*> parts(items.begin() + 1, items.end());
    Push(PickleKind::kStorage)->items = std::move(parts);
  }

  void Reduce(const PickleNode& callable, const PickleNode& arguments) {
    if (arguments.kind != PickleKind::kTuple) {
      Corrupt("a tuple of arguments", "another value");
    }
    const auto& given = arguments.items;
    if (Is(callable, kOrderedDict) && given.empty()) {
      Push(PickleKind::kDict);
    } else if (Is(callable, kTensor) && given.size() >= 6 &&
               given[0]->kind == PickleKind::kStorage &&
               given[1]->kind == PickleKind::kNumber &&
               given[2]->kind == PickleKind::kTuple &&
               given[3]->kind == PickleKind::kTuple) {
      Push(PickleKind::kTensor)->items = {given[0], given[1], given[2],
                                          given[3]};
    } else if (Is(callable, kParameter) && !given.empty() &&
               given[0]->kind == PickleKind::kTensor) {
      std::vector<const PickleNode*> parts = given[0]->items;
      Push(PickleKind::kTensor)->items = std::move(parts);
    } else {
      Refuse("opcode REDUCE of other arguments");
    }
  }

  Pickle& made_;
  std::string_view bytes_;
  std::string where_;
  uint64_t first_byte_;
  size_t at_ = 0;
  size_t begin_ = 0;  // of the opcode
  std::vector<PickleNode*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleNode*> memo_;
};

Pickle::Pickle(std::string_view bytes, std::string where, uint64_t first_byte) {
  root_ = Reader(*this, bytes, std::move(where), first_byte).Run();
}

}  // namespace headwise
