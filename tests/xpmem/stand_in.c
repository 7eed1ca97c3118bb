// SPDX-License-Identifier: GPL-2.0
/* A kernel module for tests: the part of XPMEM's device (/dev/xpmem) that this MPI uses, since no distribution's
 * kernel has the real one. Its promises are the same: an attached range is its owner's memory.
 * Pages come with the first touch and go when their owner gives them back. A touch of memory that
 * the owner does not have is SIGBUS.
 *
 *   segment     all of a process's memory, for processes of the same user; as long as its file is open
 *   attachment  a mapping of the device whose offset is the owner's address; its faults look up the owner's page
 *
 * No lock is held while a page is put into an attachment. Instead a segment counts the changes of its owner's
 * page tables: a fault that finds another count at its end takes back its own page. Later changes
 * take pages away themselves. */
#include <linux/cred.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Attaches memory of other processes, for tests");

enum { MAKE = 1, GET = 3, RELEASE = 4, ATTACH = 5, DETACH = 6 };

struct make { u64 addr; size_t size; int permit_type; u64 permit_value; s64 segment; };
struct get { s64 segment; int flags, permit_type; u64 permit_value; s64 access; };
struct attach { s64 access; loff_t offset; size_t size; u64 addr; int fd, flags; };

struct segment {
    struct kref users;
    struct mmu_notifier notifier;
    struct mm_struct *mm;
    struct address_space *mapping;
    kuid_t owner;
    u32 id;
    atomic_t running; /* changes that have begun and not ended */
    atomic_t changes; /* that have begun */
};

struct opened {
    struct mutex lock;
    struct segment *own, *attaching;
};

static DEFINE_XARRAY_ALLOC1(segments);
static const struct vm_operations_struct attached;

static void forget(struct kref *users)
{
    struct segment *segment = container_of(users, struct segment, users);
    mmdrop(segment->mm);
    kfree(segment);
}

static int change_begins(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
    struct segment *segment = container_of(notifier, struct segment, notifier);
    if (!mmu_notifier_range_blockable(range))
        return -EAGAIN;
    atomic_inc(&segment->running);
    atomic_inc(&segment->changes);
    smp_mb();
    /* Pages of an attachment go while the mapping's lock is held for reading. To take it again would wait for ever
     * behind a writer. Nobody attaches an attachment. */
    if (range->event != MMU_NOTIFY_CLEAR || !range->vma || range->vma->vm_ops != &attached)
        unmap_mapping_range(segment->mapping, range->start, range->end - range->start, 1);
    return 0;
}

static void change_ends(struct mmu_notifier *notifier, const struct mmu_notifier_range *range)
{
    atomic_dec(&container_of(notifier, struct segment, notifier)->running);
}

static void owner_ends(struct mmu_notifier *notifier, struct mm_struct *mm)
{
    struct segment *segment = container_of(notifier, struct segment, notifier);
    atomic_inc(&segment->changes);
    smp_mb();
    unmap_mapping_range(segment->mapping, 0, 0, 1);
}

static const struct mmu_notifier_ops changes = {
    .invalidate_range_start = change_begins,
    .invalidate_range_end = change_ends,
    .release = owner_ends,
};

/* The owner's page at this address, for writing where the owner may write. */
static struct page *page_of(struct mm_struct *mm, unsigned long address)
{
    struct vm_area_struct *area = vma_lookup(mm, address);
    struct page *page;
    if (!area)
        return NULL;
    return get_user_pages_remote(mm, address, 1, area->vm_flags & VM_WRITE ? FOLL_WRITE : 0, &page, NULL, NULL) == 1
               ? page : NULL;
}

static vm_fault_t touched(struct vm_fault *fault)
{
    struct segment *segment = fault->vma->vm_private_data;
    unsigned long address = fault->pgoff << PAGE_SHIFT;
    int before = atomic_read(&segment->changes);
    vm_fault_t result = VM_FAULT_NOPAGE; /* and so once more */
    struct page *page;
    smp_mb();
    if (atomic_read(&segment->running))
        return cond_resched(), result;
    if (!mmget_not_zero(segment->mm))
        return VM_FAULT_SIGBUS;
    /* We hold our own lock; the owner may wait for it with its own. */
    if (mmap_read_trylock(segment->mm)) {
        page = page_of(segment->mm, address);
        result = page ? vmf_insert_pfn(fault->vma, fault->address, page_to_pfn(page)) : VM_FAULT_SIGBUS;
        mmap_read_unlock(segment->mm);
        smp_mb();
        if (page && atomic_read(&segment->changes) != before) {
            unmap_mapping_range(segment->mapping, address, PAGE_SIZE, 1);
            result = VM_FAULT_NOPAGE;
        }
        if (page)
            put_page(page);
    } else {
        cond_resched();
    }
    mmput_async(segment->mm);
    return result;
}

static void opens(struct vm_area_struct *area)
{
    kref_get(&((struct segment *)area->vm_private_data)->users);
}

static void closes(struct vm_area_struct *area)
{
    kref_put(&((struct segment *)area->vm_private_data)->users, forget);
}

static const struct vm_operations_struct attached = {.fault = touched, .open = opens, .close = closes};

static int map(struct file *file, struct vm_area_struct *area)
{
    struct opened *opened = file->private_data;
    if (!opened->attaching)
        return -EINVAL;
    area->vm_private_data = opened->attaching;
    area->vm_ops = &attached;
    area->vm_flags |= VM_PFNMAP | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP;
    opens(area);
    return 0;
}

static int make(struct file *file, struct make *asked)
{
    struct opened *opened = file->private_data;
    struct segment *segment = kzalloc(sizeof *segment, GFP_KERNEL);
    int code;
    if (!segment)
        return -ENOMEM;
    kref_init(&segment->users);
    segment->mm = current->mm;
    mmgrab(segment->mm);
    segment->mapping = file->f_mapping;
    segment->owner = current_euid();
    segment->notifier.ops = &changes;
    code = opened->own || asked->permit_value != 0600 ? -EINVAL : mmu_notifier_register(&segment->notifier, segment->mm);
    if (!code && (code = xa_alloc(&segments, &segment->id, segment, xa_limit_31b, GFP_KERNEL)))
        mmu_notifier_unregister(&segment->notifier, segment->mm);
    if (code)
        return kref_put(&segment->users, forget), code;
    opened->own = segment;
    asked->segment = segment->id;
    return 0;
}

/* With a user more, if this process may attach it. */
static struct segment *allowed(s64 id)
{
    struct segment *segment;
    xa_lock(&segments);
    segment = xa_load(&segments, id);
    if (segment && uid_eq(segment->owner, current_euid()))
        kref_get(&segment->users);
    else
        segment = NULL;
    xa_unlock(&segments);
    return segment;
}

static int attach(struct file *file, struct attach *asked)
{
    struct opened *opened = file->private_data;
    struct segment *segment = allowed(asked->access);
    unsigned long here;
    if (!segment)
        return -EACCES;
    opened->attaching = segment;
    here = vm_mmap(file, asked->addr, asked->size, PROT_READ | PROT_WRITE, MAP_SHARED, asked->offset);
    opened->attaching = NULL;
    kref_put(&segment->users, forget);
    asked->addr = here;
    return IS_ERR_VALUE(here) ? (int)here : 0;
}

static int detach(u64 address)
{
    struct vm_area_struct *area;
    size_t size = 0;
    mmap_read_lock(current->mm);
    area = vma_lookup(current->mm, address);
    if (area && area->vm_ops == &attached)
        size = area->vm_end - area->vm_start;
    mmap_read_unlock(current->mm);
    return size ? vm_munmap(address, size) : -EINVAL;
}

static long told(struct file *file, unsigned int command, unsigned long argument)
{
    struct opened *opened = file->private_data;
    void __user *from = (void __user *)argument;
    union { struct make make; struct get get; struct attach attach; u64 address; } asked = {};
    size_t size = 0;
    struct segment *segment;
    int code = 0;
    if (_IOC_TYPE(command) != 'x')
        return -ENOTTY;
    switch (_IOC_NR(command)) {
    case MAKE: size = sizeof asked.make; break;
    case GET: size = sizeof asked.get; break;
    case RELEASE: return 0;
    case ATTACH: size = sizeof asked.attach; break;
    case DETACH: size = sizeof asked.address; break;
    default: return -ENOTTY;
    }
    if (copy_from_user(&asked, from, size))
        return -EFAULT;
    mutex_lock(&opened->lock);
    switch (_IOC_NR(command)) {
    case MAKE: code = make(file, &asked.make); break;
    case GET:
        segment = allowed(asked.get.segment);
        code = segment ? 0 : -EACCES;
        asked.get.access = asked.get.segment;
        if (segment)
            kref_put(&segment->users, forget);
        break;
    case ATTACH: code = attach(file, &asked.attach); break;
    default: code = detach(asked.address);
    }
    mutex_unlock(&opened->lock);
    return !code && copy_to_user(from, &asked, size) ? -EFAULT : code;
}

static int opening(struct inode *inode, struct file *file)
{
    struct opened *opened = kzalloc(sizeof *opened, GFP_KERNEL);
    if (!opened)
        return -ENOMEM;
    mutex_init(&opened->lock);
    file->private_data = opened;
    return 0;
}

static int closing(struct inode *inode, struct file *file)
{
    struct opened *opened = file->private_data;
    if (opened->own) {
        xa_erase(&segments, opened->own->id);
        mmu_notifier_unregister(&opened->own->notifier, opened->own->mm);
        kref_put(&opened->own->users, forget);
    }
    kfree(opened);
    return 0;
}

static const struct file_operations operations = {
    .owner = THIS_MODULE, .open = opening, .release = closing, .mmap = map, .unlocked_ioctl = told,
};
static struct miscdevice device = {.minor = MISC_DYNAMIC_MINOR, .name = "xpmem", .fops = &operations, .mode = 0666};
module_misc_device(device);
