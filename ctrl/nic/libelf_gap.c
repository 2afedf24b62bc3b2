// SPDX-License-Identifier: Apache-2.0
/*
 * libelf.a of elfutils 0.192 (Debian 13) calls two functions of libeu.a, which elfutils does not install.
 * They keep a tree that only elf_getdata_rawchunk() fills, and libbpf never calls that: there is nothing to
 * prepare and nothing to free. Weak: where libelf.a has them, these do nothing.
 */
void eu_search_tree_init(void *tree);
void eu_search_tree_fini(void *tree, void (*free_node)(void *));

__attribute__((weak)) void eu_search_tree_init(void *tree)
{
	(void)tree;
}

__attribute__((weak)) void eu_search_tree_fini(void *tree, void (*free_node)(void *))
{
	(void)tree;
	(void)free_node;
}
