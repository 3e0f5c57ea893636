# Made with Python `tokenizers` 0.23.3, trained on data/words.txt of this crate.
# Run in the crate's folder: python tests/data/make.py
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers, processors, normalizers
words=open('data/words.txt').read().splitlines()
lines=[l for l in words if l and l[0] not in '#[']
out='tests/data/'
# byte-level BPE, with truncation to 8 and padding to 8 which must be ignored
t=Tokenizer(models.BPE()); t.pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False); t.decoder=decoders.ByteLevel()
t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
t.enable_truncation(8); t.enable_padding(length=8)
t.save(out+'byte-bpe.json',pretty=False)
# the same with BOS added by the post-processor
t=Tokenizer(models.BPE()); t.pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False); t.decoder=decoders.ByteLevel()
t.train_from_iterator(lines+["hello world hello world"]*300, trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
t.add_special_tokens(['<s>']); t.post_processor=processors.TemplateProcessing(single='<s> $A', pair='<s> $A $B', special_tokens=[('<s>',t.token_to_id('<s>'))])
t.save(out+'bos-bpe.json',pretty=False)
# WordPiece
t=Tokenizer(models.WordPiece(unk_token='[UNK]')); t.normalizer=normalizers.BertNormalizer(lowercase=True); t.pre_tokenizer=pre_tokenizers.BertPreTokenizer(); t.decoder=decoders.WordPiece()
t.train_from_iterator(lines+[". , ! ? ;"]*50, trainers.WordPieceTrainer(vocab_size=900, special_tokens=['[PAD]','[UNK]','[CLS]','[SEP]'], show_progress=False))
t.post_processor=processors.TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B [SEP]', special_tokens=[('[CLS]',2),('[SEP]',3)])
t.save(out+'wordpiece.json',pretty=False)
# Unigram with metaspace (SentencePiece style)
t=Tokenizer(models.Unigram()); t.pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme='always'); t.decoder=decoders.Metaspace(prepend_scheme='always')
t.train_from_iterator(lines+[". , ! ? ;"]*50, trainers.UnigramTrainer(vocab_size=900, unk_token='<unk>', special_tokens=['<unk>','<s>','</s>'], show_progress=False))
t.save(out+'unigram.json',pretty=False)
# Unigram over whole sentences without a pre-tokenizer: tokens may span words; costs do not add up
import random
random.seed(1)
sents=[" ".join(random.choice(l.split()) for l in random.sample(lines,5)) for _ in range(3000)]
t=Tokenizer(models.BPE(unk_token='<unk>', byte_fallback=True)); t.normalizer=normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ','▁')]); 
t.decoder=decoders.Sequence([decoders.Replace('▁',' '), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(' ',1,0)])
t.train_from_iterator(sents+["the old the new and the , the . the "]*300, trainers.BpeTrainer(vocab_size=1200, special_tokens=['<unk>','<s>','</s>']+[f'<0x{i:02X}>' for i in range(256)], show_progress=False))
t.save(out+'spanning.json',pretty=False)
# WordLevel without unknown token: must be refused
t=Tokenizer(models.WordLevel({'a':0,'b':1})); t.pre_tokenizer=pre_tokenizers.Whitespace(); t.save(out+'no-unknown.json',pretty=False)
