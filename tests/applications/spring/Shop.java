// A shop on Spring Data MongoDB: mapped classes with declared indexes, a repository, transactions, optimistic locking, references.
// Called by test_applications.py with the address of a replica set. Prints "done" at the end.

import static org.springframework.data.mongodb.core.query.Criteria.where;
import static org.springframework.data.mongodb.core.query.Query.query;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.math.BigDecimal;
import java.util.List;
import org.bson.Document;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.dao.OptimisticLockingFailureException;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.domain.PageRequest;
import org.springframework.data.domain.Sort;
import org.springframework.data.mongodb.MongoTransactionManager;
import org.springframework.data.mongodb.core.MongoTemplate;
import org.springframework.data.mongodb.core.SimpleMongoClientDatabaseFactory;
import org.springframework.data.mongodb.core.aggregation.Aggregation;
import org.springframework.data.mongodb.core.convert.DefaultDbRefResolver;
import org.springframework.data.mongodb.core.convert.MappingMongoConverter;
import org.springframework.data.mongodb.core.convert.MongoCustomConversions;
import org.springframework.data.mongodb.core.index.CompoundIndex;
import org.springframework.data.mongodb.core.index.Indexed;
import org.springframework.data.mongodb.core.index.MongoPersistentEntityIndexResolver;
import org.springframework.data.mongodb.core.mapping.DBRef;
import org.springframework.data.mongodb.core.mapping.Field;
import org.springframework.data.mongodb.core.mapping.FieldType;
import org.springframework.data.mongodb.core.mapping.MongoMappingContext;
import org.springframework.data.mongodb.core.query.Update;
import org.springframework.data.mongodb.repository.MongoRepository;
import org.springframework.data.mongodb.repository.support.MongoRepositoryFactory;
import org.springframework.transaction.support.TransactionTemplate;

public class Shop {
    @org.springframework.data.mongodb.core.mapping.Document("products")
    @CompoundIndex(def = "{'price': 1, 'left': -1}", name = "price_left")
    public static class Product {
        @Id public String id;
        @Indexed(unique = true) public String sku;
        @Field(targetType = FieldType.DECIMAL128) public BigDecimal price;
        public int left;
        @Version public Long version;

        public Product(String sku, BigDecimal price, int left) {
            this.sku = sku;
            this.price = price;
            this.left = left;
        }
    }

    public record Line(String sku, int count) {}

    @org.springframework.data.mongodb.core.mapping.Document("orders")
    public static class Order {
        @Id public String id;
        public String customer;
        @DBRef public Product first;
        public List<Line> lines;

        public Order(String customer, Product first, List<Line> lines) {
            this.customer = customer;
            this.first = first;
            this.lines = lines;
        }
    }

    public interface Products extends MongoRepository<Product, String> {
        Product findBySku(String sku);

        List<Product> findByLeftGreaterThanOrderBySkuAsc(int left);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    private static boolean fails(Class<? extends Exception> with, Runnable call) {
        try {
            call.run();
            return false;
        } catch (Exception error) {
            if (with.isInstance(error)) {
                return true;
            }
            throw error;
        }
    }

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            SimpleMongoClientDatabaseFactory factory = new SimpleMongoClientDatabaseFactory(client, "shop_spring");
            MongoTemplate template = new MongoTemplate(factory, converter(factory));
            for (Class<?> mapped : List.of(Product.class, Order.class)) {
                var resolver = new MongoPersistentEntityIndexResolver(template.getConverter().getMappingContext());
                resolver.resolveIndexFor(mapped).forEach(template.indexOps(mapped)::createIndex);
            }
            check(template.indexOps(Product.class).getIndexInfo().size() == 3, "three indexes of products");
            sell(template, new MongoRepositoryFactory(template).getRepository(Products.class));
            transact(template, new TransactionTemplate(new MongoTransactionManager(factory)));
        }
        System.out.println("done");
    }

    private static MappingMongoConverter converter(SimpleMongoClientDatabaseFactory factory) {
        MongoCustomConversions conversions = new MongoCustomConversions(List.of());
        MongoMappingContext mapping = new MongoMappingContext();
        mapping.setSimpleTypeHolder(conversions.getSimpleTypeHolder());
        MappingMongoConverter converter = new MappingMongoConverter(new DefaultDbRefResolver(factory), mapping);
        converter.setCustomConversions(conversions);
        converter.afterPropertiesSet();
        return converter;
    }

    private static void sell(MongoTemplate template, Products products) {
        Product pen = products.save(new Product("pen", new BigDecimal("12.50"), 3));
        products.saveAll(List.of(new Product("ink", new BigDecimal("3.10"), 9), new Product("nib", BigDecimal.ONE, 0)));
        check(fails(DuplicateKeyException.class, () -> products.save(new Product("pen", BigDecimal.TEN, 1))), "two pens");
        Product stale = products.findBySku("pen");
        pen.left = 1;
        products.save(pen);
        stale.left = 2;
        check(fails(OptimisticLockingFailureException.class, () -> products.save(stale)), "a change of an older version");
        check(products.findByLeftGreaterThanOrderBySkuAsc(0).get(0).sku.equals("ink"), "the first that is there");
        check(products.findAll(PageRequest.of(1, 2, Sort.by("sku"))).getContent().get(0).sku.equals("pen"), "the second page");
        template.insert(new Order("ada", pen, List.of(new Line("pen", 2), new Line("ink", 1))));
        Order found = template.findOne(query(where("lines.sku").is("ink")), Order.class);
        check(found.first.sku.equals("pen"), "the product of the reference");
        check(template.exists(query(where("first.$id").is(new org.bson.types.ObjectId(pen.id))), Order.class), "by the reference");
        Aggregation sums = Aggregation.newAggregation(Aggregation.unwind("lines"), Aggregation.group("customer").sum("lines.count").as("count"));
        List<Document> counted = template.aggregate(sums, Order.class, Document.class).getMappedResults();
        check(counted.get(0).getInteger("count") == 3, "three things bought");
    }

    private static void transact(MongoTemplate template, TransactionTemplate transactions) {
        transactions.executeWithoutResult(status -> {
            template.updateFirst(query(where("sku").is("nib")), new Update().inc("left", 5), Product.class);
            template.insert(new Order("bob", null, List.of(new Line("nib", 1))));
        });
        check(template.count(query(where("customer").is("bob")), Order.class) == 1, "what was committed");
        transactions.executeWithoutResult(status -> {
            template.remove(query(where("customer").is("bob")), Order.class);
            status.setRollbackOnly();
        });
        check(template.count(query(where("customer").is("bob")), Order.class) == 1, "what was taken back");
        Product changed = template.findAndModify(query(where("sku").is("nib")), new Update().inc("left", -1), Product.class);
        check(changed.left == 5, "as it was before");
    }
}
