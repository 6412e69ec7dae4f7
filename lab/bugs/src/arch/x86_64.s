# The start on a PC. QEMU's firmware jumps to the address of the note in 32-bit protected mode, without
# paging (the PVH protocol). This code maps the first 4 GiB to themselves and enters 64-bit mode.

.section .note.Xen, "a", @note
    .balign 4
    .long 4                     # bytes of the name
    .long 4                     # bytes of the value
    .long 18                    # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long _start

.section .text.boot, "ax"
.code32
.globl _start
_start:
    cli
    cld
    movl $bss_start, %edi
    movl $bss_end, %ecx
    subl %edi, %ecx
    xorl %eax, %eax
    rep stosb

    # Four tables of 512 pages of 2 MiB each.
    movl $page_directories, %edi
    movl $0x83, %eax            # present, writable, large
    movl $2048, %ecx
1:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    movl $page_directories + 3, %eax
    movl $page_pointers, %edi
    movl $4, %ecx
2:  movl %eax, (%edi)
    addl $4096, %eax
    addl $8, %edi
    loop 2b
    movl $page_pointers + 3, page_root

    movl $page_root, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x20, %eax             # PAE
    movl %eax, %cr4
    movl $0xC0000080, %ecx      # EFER
    rdmsr
    orl $0x100, %eax            # LME
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax       # PG, PE
    movl %eax, %cr0
    lgdt descriptors_of_segments
    ljmp $8, $3f
.code64
3:  movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $stack_top, %esp
    xorl %ebp, %ebp
    call start
4:  hlt
    jmp 4b

# The timer's interrupt only ends a halt.
.globl on_timer
on_timer:
    pushq %rax
    movb $0x20, %al
    outb %al, $0x20             # end of interrupt
    popq %rax
    iretq

# An exception of the processor: the code and the error code are not needed to end.
.globl on_fault
on_fault:
    cld
    andq $-16, %rsp
    call fault
5:  hlt
    jmp 5b

.section .rodata.boot, "a"
    .balign 8
segments:
    .quad 0
    .quad 0x00AF9A000000FFFF    # code, 64-bit
    .quad 0x00CF92000000FFFF    # data
descriptors_of_segments:
    .word 23
    .long segments
    .long 0

.section .bss.boot, "aw", @nobits
    .balign 4096
page_root:
    .skip 4096
page_pointers:
    .skip 4096
page_directories:
    .skip 16384
