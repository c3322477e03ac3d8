#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/tensor.h"
#include "headwise/text_input.h"

namespace headwise::read_texts_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReadTextsTest : public ScratchFolderTest {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    WriteFileAtomically(path, text);
    return path;
  }
  // input_ids 1 to 8 and attention_mask, of two rows of four.
  std::string WriteIds(const std::vector<int32_t>& mask) {
    Tensor ids(DType::kI32, {2, 4}), kept(DType::kI32, {2, 4});
    for (int32_t i = 0; i < 8; ++i) {
      ids.As<int32_t>()[i] = i + 1;
      kept.As<int32_t>()[i] = mask[i];
    }
    const std::string path = (folder_ / "ids.safetensors").string();
    WriteSafetensors(
        path, {{"input_ids", ids.view()}, {"attention_mask", kept.view()}});
    return path;
  }
};

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(ReadTextsTest, LinesComeWithoutTheirEnds) {
  EXPECT_THAT(ReadLines(Write("a.txt", "one\r\n\ntwo\nthree")),
              ElementsAre("one", "", "two", "three"));
  EXPECT_THAT(ReadLines(Write("b.txt", "")), ElementsAre());
  EXPECT_THAT(MessageOf([&] { ReadLines(Write("c.txt", "ab\xff")); }),
              HasSubstr("byte 0xff at 2"));
}

TEST_F(ReadTextsTest, DocumentsAreWholeAndBounded) {
  const std::string line = "all work and no play\n";
  std::string text;
  while (text.size() < (size_t{3} << 19)) text += line;  // two pieces
  const std::string a = Write("a.txt", text), b = Write("b.txt", "second");
  const std::vector<TextDocument> documents = ReadTexts({a, b}, 1 << 22);
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].text, text);
  EXPECT_EQ(documents[1].text, "second");
  EXPECT_EQ(ReadFirstText(a), text);
  EXPECT_THAT(MessageOf([&] {
                ReadTexts({a, b}, 1 << 20);
              }),
              HasSubstr("give fewer files"));
}

TEST_F(ReadTextsTest, IdsLeavePaddingOutAndKeepTheirPlaces) {
  const IdRows read = ReadIdRows(WriteIds({0, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(read.width, 4);
  EXPECT_THAT(read.first, ElementsAre(1, 0));
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre(2, 3, 4), ElementsAre(5, 6)));
}

TEST_F(ReadTextsTest, IdsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(MessageOf([&] {
                ReadIdRows(WriteIds({1, 0, 1, 1, 1, 1, 1, 1}));
              }),
              HasSubstr("before token 2 of sequence 0"));
  EXPECT_THAT(MessageOf([&] {
                ReadIds(WriteIds({1, 1, 1, 1, 1, 0, 0, 0}), 9);
              }),
              HasSubstr("1 in sequence 1"));
  EXPECT_THAT(MessageOf([&] {
                ReadIds(WriteIds({1, 1, 1, 1, 1, 1, 1, 1}), 8);
              }),
              HasSubstr("8"));
}

}  // namespace
}  // namespace headwise::read_texts_test
