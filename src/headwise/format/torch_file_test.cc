// PyTorch's checkpoints as torch.save writes them, and what is refused.
#include "headwise/format/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headwise/base/temporary_folder.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace headwise::torch_file_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return text;
}

// An archive of stored files.
class Zip {
 public:
  Zip& Add(const std::string& name, const std::string& bytes,
           uint64_t method = 0) {
    directory_ += "PK\1\2" + Little(0, 6) + Little(method, 2) + Little(0, 8) +
                  Little(bytes.size(), 4) + Little(bytes.size(), 4) +
                  Little(name.size(), 2) + Little(0, 12) +
                  Little(files_.size(), 4) + name;
    files_ += "PK\3\4" + Little(0, 14) + Little(bytes.size(), 4) +
              Little(bytes.size(), 4) + Little(name.size(), 2) + Little(0, 2) +
              name + bytes;
    ++count_;
    return *this;
  }
  std::string Text() const {
    return files_ + directory_ + "PK\5\6" + Little(0, 4) + Little(count_, 2) +
           Little(count_, 2) + Little(directory_.size(), 4) +
           Little(files_.size(), 4) + Little(0, 2);
  }

 private:
  std::string files_, directory_;
  uint64_t count_ = 0;
};

// Opcodes of protocol 2.
std::string Text(const std::string& text) {
  return "X" + Little(text.size(), 4) + text;
}
std::string Number(uint64_t value) { return "J" + Little(value, 4); }
std::string Global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string Numbers(const std::vector<uint64_t>& values) {
  std::string text = "(";
  for (const uint64_t value : values) text += Number(value);
  return text + "t";
}

struct Written {
  std::string type = "FloatStorage", key = "0";
  uint64_t elements = 6, offset = 0;
  std::vector<uint64_t> sizes = {2, 3}, strides = {3, 1};
};

std::string TensorOf(const Written& t) {
  return Global("torch._utils", "_rebuild_tensor_v2") + "((" + Text("storage") +
         Global("torch", t.type) + Text(t.key) + Text("cpu") +
         Number(t.elements) + "tQ" + Number(t.offset) + Numbers(t.sizes) +
         Numbers(t.strides) + "\x89" + Global("collections", "OrderedDict") +
         ")RtR";
}

std::string Dict(const std::string& pairs) {
  return "\x80\x02" + Global("collections", "OrderedDict") + ")R(" + pairs +
         "u" + "}" + Text("_metadata") + "Nsb.";
}

// Six floats, 0 to 5.
std::string Floats() {
  std::string bytes(24, '\0');
  for (int i = 0; i < 6; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  return bytes;
}

std::string Archive(const std::string& pickle) {
  return Zip()
      .Add("m/data.pkl", pickle)
      .Add("m/byteorder", "little")
      .Add("m/data/0", Floats())
      .Text();
}

class TorchFileTest : public testing::Test {
 protected:
  fs::path Write(const std::string& bytes,
                 const std::string& name = "pytorch_model.bin") const {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
    return folder_.path() / name;
  }
  std::string ErrorOf(const std::string& bytes) const {
    try {
      ReadTorchFile(MappedFile(Write(bytes)), "f");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string ErrorOfTensor(const Written& tensor) const {
    return ErrorOf(Archive(Dict(Text("w") + TensorOf(tensor))));
  }

  TemporaryFolder folder_;
};

TEST_F(TorchFileTest, ReadsTensorsThatShareAStorage) {
  const MappedFile file(Write(Archive(
      Dict(Text("w") + TensorOf({}) + Text("row") +
           TensorOf({.offset = 3, .sizes = {3}, .strides = {1}}) + Text("one") +
           TensorOf({.offset = 5, .sizes = {}, .strides = {}}) + Text("p") +
           Global("torch._utils", "_rebuild_parameter") + "(" + TensorOf({}) +
           "\x88" + ")tR"))));
  const std::vector<TorchTensor> tensors = ReadTorchFile(file, "f");
  ASSERT_EQ(tensors.size(), 4);
  EXPECT_EQ(tensors[0].name, "w");
  EXPECT_EQ(ToString(tensors[0].view), "f32 [2, 3]");
  EXPECT_EQ(ToString(tensors[1].view), "f32 [3]");
  const auto at = [&](size_t i, int64_t place) {
    float value = 0;
    std::memcpy(&value,
                static_cast<const char*>(tensors[i].view.data) + 4 * place, 4);
    return value;
  };
  EXPECT_EQ(at(0, 4), 4);
  EXPECT_EQ(at(1, 1), 4);
  EXPECT_EQ(tensors[2].view.rank, 0);
  EXPECT_EQ(at(2, 0), 5);
  EXPECT_EQ(tensors[3].view.data, tensors[0].view.data);
  EXPECT_GE(tensors[0].view.data, static_cast<const void*>(file.data()));
}

TEST_F(TorchFileTest, RunsNothing) {
  const std::string before = "\x80\x02}" + Text("a");
  const std::string system =
      before + Global("posix", "system") + Text("echo") + "\x85Rs.";
  const std::string archive = Archive(system);
  const size_t byte = archive.find("cposix");
  EXPECT_THAT(ErrorOf(archive),
              testing::AllOf(HasSubstr("global posix.system"),
                             HasSubstr("byte " + std::to_string(byte) + "]")));
  EXPECT_THAT(ErrorOf(Archive(before + Global("torch", "load") + ".")),
              HasSubstr("global torch.load"));
  EXPECT_THAT(ErrorOf(Archive(before + Global("torch", "x._Storage") + ".")),
              HasSubstr("global torch.x._Storage"));
  EXPECT_THAT(ErrorOf(Archive(before + "(iposix\nsystem\n.")),
              HasSubstr("opcode INST"));
  EXPECT_THAT(ErrorOf(Archive(before + "\x8c\x01x\x93.")),
              HasSubstr("opcode SHORT_BINUNICODE"));
  EXPECT_THAT(ErrorOf(Archive("\x80\x04.")), HasSubstr("protocol"));
  // What is known, called with something else.
  EXPECT_THAT(ErrorOf(Archive(before + Global("collections", "OrderedDict") +
                              Text("x") + "\x85R.")),
              HasSubstr("opcode REDUCE"));
  EXPECT_THAT(ErrorOf(Archive(before + ")Q.")), HasSubstr("opcode BINPERSID"));
  EXPECT_THAT(ErrorOf(Archive("\x80\x02})b.")), HasSubstr("opcode BUILD"));
  EXPECT_THAT(ErrorOf(Archive("\x80\x02N.")), HasSubstr("a dictionary"));
  EXPECT_THAT(ErrorOf(Archive(Dict(Text("epoch") + Number(3)))),
              HasSubstr("epoch] expected a tensor"));
}

TEST_F(TorchFileTest, TensorsStayWithinTheirStorage) {
  EXPECT_EQ(ErrorOfTensor({}), "");
  EXPECT_THAT(ErrorOfTensor({.elements = 7}), HasSubstr("7 elements"));
  EXPECT_THAT(ErrorOfTensor({.type = "DoubleStorage"}), HasSubstr("24 bytes"));
  EXPECT_THAT(ErrorOfTensor({.type = "QUInt8Storage"}),
              HasSubstr("QUInt8Storage"));
  EXPECT_THAT(ErrorOfTensor({.key = "1"}), HasSubstr("m/data/1"));
  EXPECT_THAT(ErrorOfTensor({.offset = 1}), HasSubstr("5 in its storage"));
  EXPECT_THAT(ErrorOfTensor({.offset = 7}), HasSubstr("at most 6"));
  EXPECT_THAT(ErrorOfTensor({.offset = 0xffffffff}), HasSubstr("at most 6"));
  EXPECT_THAT(ErrorOfTensor({.sizes = {3, 2}, .strides = {1, 3}}),
              HasSubstr("transposed"));
  EXPECT_THAT(ErrorOfTensor({.sizes = {0x7fffffff, 0x7fffffff, 0x7fffffff},
                             .strides = {1, 1, 1}}),
              HasSubstr("63 bits"));
  EXPECT_THAT(ErrorOfTensor({.sizes = {0xffffffff}, .strides = {1}}),
              HasSubstr("sizes"));
  EXPECT_EQ(ErrorOfTensor({.sizes = {1, 6}, .strides = {99, 1}}), "");
}

TEST_F(TorchFileTest, OtherArchivesAreRefused) {
  EXPECT_THAT(ErrorOf("\x80\x02\x8a\x0a"), HasSubstr("before 1.6"));
  const std::string good = Dict(Text("w") + TensorOf({}));
  EXPECT_THAT(ErrorOf(Zip().Add("m/data.pkl", good, 8).Text()),
              HasSubstr("uncompressed"));
  EXPECT_THAT(
      ErrorOf(Zip().Add("m/data.pkl", good).Add("m/data.pkl", good).Text()),
      HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(Zip().Add("m/data", good).Text()), HasSubstr("data.pkl"));
  EXPECT_THAT(
      ErrorOf(Zip().Add("m/data.pkl", good).Add("m/byteorder", "big").Text()),
      HasSubstr("byteorder"));
}

// Every byte of every tensor is read, which a sanitizer watches.
void ReadAll(const fs::path& path) {
  try {
    const MappedFile file(path);
    volatile unsigned char last = 0;
    for (const TorchTensor& tensor : ReadTorchFile(file, "f")) {
      const auto* bytes = static_cast<const unsigned char*>(tensor.view.data);
      for (int64_t i = 0; i < BytesOf(tensor.view.type, tensor.view.size());
           ++i)
        last = bytes[i];
    }
  } catch (const Error&) {
  }
}

TEST_F(TorchFileTest, SpoiltFilesAreErrorsOrTensorsWithinThem) {
  const std::string good = Archive(Dict(Text("w") + TensorOf({})));
  for (size_t at = 0; at < good.size(); ++at) {
    ReadAll(Write(good.substr(0, at)));
    for (const char value : {'\0', '\xff', 't'}) {
      std::string bad = good;
      bad[at] = value;
      ReadAll(Write(bad));
    }
  }
}

TEST_F(TorchFileTest, FoldersOpenAsTheOnesOfSafetensors) {
  Write(Archive(Dict(Text("w") + TensorOf({}))));
  const auto one = Safetensors::Open(folder_.path());
  EXPECT_EQ(one.tensors().size(), 1);
  EXPECT_EQ(one.At("w").As<float>()[5], 5);
  EXPECT_THAT(one.where(), HasSubstr("pytorch_model.bin"));

  fs::remove(folder_.path() / "pytorch_model.bin");
  Write(Archive(Dict(Text("a") + TensorOf({}))), "a.bin");
  Write(Archive(Dict(Text("b") + TensorOf({}) + Text("c") + TensorOf({}))),
        "b.bin");
  Write(R"({"weight_map": {"a": "a.bin", "b": "b.bin"}})",
        "pytorch_model.bin.index.json");
  const auto two = Safetensors::Open(folder_.path());
  EXPECT_EQ(two.tensors().size(), 2);
  EXPECT_EQ(two.At("b").As<float>()[1], 1);
  Write(R"({"weight_map": {"a": "a.bin", "z": "b.bin"}})",
        "pytorch_model.bin.index.json");
  EXPECT_THROW(Safetensors::Open(folder_.path()), Error);
}

}  // namespace
}  // namespace headwise::torch_file_test
