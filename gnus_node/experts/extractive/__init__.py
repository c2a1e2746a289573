"""The extractive expert: answers with a literal span of a passage, chosen by general rules, or abstains."""
